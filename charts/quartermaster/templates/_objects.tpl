{{/*
What is installed is in the files of manifests, which kustomize reads as well. The templates read them, and change what
values, or the patches of a kustomization, change.
*/}}

{{/* file: the text of a file of manifests. */}}
{{- define "quartermaster.file" -}}
{{- $text := .root.Files.Get (printf "manifests/%s" .path) -}}
{{- if not $text -}}
  {{- fail (printf "the chart has no file manifests/%s; in the repository, manifests is a symbolic link, which whatever copied the chart has to follow: helm package does, and so does a checkout with core.symlinks" .path) -}}
{{- end -}}
{{- $text -}}
{{- end -}}

{{/*
objects: a list of the objects of a kustomization, with its labels. Folders that it includes and its patches are not
applied.
*/}}
{{- define "quartermaster.objects" -}}
{{- $root := .root -}}
{{- $folder := .folder -}}
{{- $kustomization := include "quartermaster.file" (dict "root" $root "path" (printf "%s/kustomization.yaml" $folder)) | fromYaml -}}
{{- $objects := list -}}
{{- range $name := $kustomization.resources -}}
  {{- if hasSuffix ".yaml" $name -}}
    {{- $text := include "quartermaster.file" (dict "root" $root "path" (printf "%s/%s" $folder $name)) -}}
    {{- range $document := regexSplit "(?m)^---$" $text -1 -}}
      {{- $object := fromYaml $document -}}
      {{- range $kustomization.labels -}}
        {{- $_ := set $object.metadata "labels" (mergeOverwrite (default dict $object.metadata.labels) .pairs) -}}
      {{- end -}}
      {{- $objects = append $objects $object -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- toYaml $objects -}}
{{- end -}}

{{/*
move: what is in kube-system in the manifests goes to the namespace of the release, and so do the accounts that get
rights.
*/}}
{{- define "quartermaster.move" -}}
{{- $namespace := .root.Release.Namespace -}}
{{- if eq (default "" .object.metadata.namespace) "kube-system" -}}
  {{- $_ := set .object.metadata "namespace" $namespace -}}
{{- end -}}
{{- include "quartermaster.moveSubjects" . -}}
{{- end -}}

{{- define "quartermaster.moveSubjects" -}}
{{- $namespace := .root.Release.Namespace -}}
{{- range .object.subjects -}}
  {{- if eq (default "" .namespace) "kube-system" -}}
    {{- $_ := set . "namespace" $namespace -}}
  {{- end -}}
{{- end -}}
{{- end -}}
