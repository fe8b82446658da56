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

{{/* name: the label app.kubernetes.io/name of the scheduler, by which its pods are selected. */}}
{{- define "quartermaster.name" -}}
{{- default "quartermaster" .Values.nameOverride -}}
{{- end -}}

{{/* fullname: what the names of the objects begin with, but for those of the guard. */}}
{{- define "quartermaster.fullname" -}}
{{- default (include "quartermaster.name" .) .Values.fullnameOverride -}}
{{- end -}}

{{/* serviceAccount: the account of the scheduler. */}}
{{- define "quartermaster.serviceAccount" -}}
{{- default (include "quartermaster.fullname" .) .Values.scheduler.serviceAccount.name -}}
{{- end -}}

{{/* renamed: the name of an object of manifests as it is in this release. The names of the guard are known to API servers. */}}
{{- define "quartermaster.renamed" -}}
{{- if and (hasPrefix "quartermaster" .name) (not (hasPrefix "quartermaster-guard" .name)) -}}
  {{- include "quartermaster.fullname" .root }}{{ trimPrefix "quartermaster" .name -}}
{{- else -}}
  {{- .name -}}
{{- end -}}
{{- end -}}

{{/*
finish: what holds for all objects: names, labels and annotations. Selectors stay as they are, so that upgrades work, unless
nameOverride is set.
*/}}
{{- define "quartermaster.finish" -}}
{{- $root := .root -}}
{{- $object := .object -}}
{{- include "quartermaster.rename" . -}}
{{- $own := default dict $object.metadata.labels -}}
{{- $_ := set $object.metadata "labels" (mergeOverwrite (include "quartermaster.labels" $root | fromYaml) $own $root.Values.commonLabels) -}}
{{- if $root.Values.commonAnnotations -}}
  {{- $_ := set $object.metadata "annotations" (mergeOverwrite (deepCopy $root.Values.commonAnnotations) (default dict $object.metadata.annotations)) -}}
{{- end -}}
{{- end -}}

{{- define "quartermaster.labels" -}}
app.kubernetes.io/name: {{ include "quartermaster.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | trunc 63 | trimAll "-_." | quote }}
app.kubernetes.io/part-of: quartermaster
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimAll "-_." | quote }}
{{- end -}}

{{/* rename: the names in an object, of itself and of what it refers to. */}}
{{- define "quartermaster.rename" -}}
{{- $root := .root -}}
{{- $object := .object -}}
{{- $account := include "quartermaster.serviceAccount" $root -}}
{{- range $object.subjects -}}
  {{- $_ := set . "name" (eq .name "quartermaster" | ternary $account (include "quartermaster.renamed" (dict "root" $root "name" .name))) -}}
{{- end -}}
{{- if not (hasPrefix "quartermaster-guard" $object.metadata.name) -}}
  {{- $name := $object.metadata.name -}}
  {{- $_ := set $object.metadata "name" (include "quartermaster.renamed" (dict "root" $root "name" $name)) -}}
  {{- if dig "labels" "app.kubernetes.io/name" "" $object.metadata -}}
    {{- $_ := set $object.metadata.labels "app.kubernetes.io/name" (include "quartermaster.name" $root) -}}
  {{- end -}}
  {{- if dig "spec" "selector" "matchLabels" "app.kubernetes.io/name" "" $object -}}
    {{- $_ := set $object.spec.selector.matchLabels "app.kubernetes.io/name" (include "quartermaster.name" $root) -}}
  {{- end -}}
  {{- if $object.roleRef -}}
    {{- $_ := set $object.roleRef "name" (include "quartermaster.renamed" (dict "root" $root "name" $object.roleRef.name)) -}}
  {{- end -}}
  {{- if and (eq $object.kind "ServiceAccount") (eq $name "quartermaster") -}}
    {{- $_ := set $object.metadata "name" $account -}}
    {{- with $root.Values.scheduler.serviceAccount.annotations -}}
      {{- $_ := set $object.metadata "annotations" . -}}
    {{- end -}}
  {{- else if eq $object.kind "Deployment" -}}
    {{- $_ := set $object.spec.template.metadata.labels "app.kubernetes.io/name" (include "quartermaster.name" $root) -}}
    {{- $_ := set $object.spec.template.spec "serviceAccountName" $account -}}
  {{- else if eq $object.kind "MutatingAdmissionPolicyBinding" -}}
    {{- $_ := set $object.spec "policyName" (include "quartermaster.renamed" (dict "root" $root "name" $object.spec.policyName)) -}}
  {{- else if eq $object.kind "Secret" -}}
    {{- $of := "kubernetes.io/service-account.name" -}}
    {{- $_ := set $object.metadata.annotations $of (include "quartermaster.renamed" (dict "root" $root "name" (index $object.metadata.annotations $of))) -}}
  {{- else if eq $object.kind "PodMonitor" -}}
    {{- range $object.spec.podMetricsEndpoints -}}
      {{- $_ := set .authorization.credentials "name" (include "quartermaster.renamed" (dict "root" $root "name" .authorization.credentials.name)) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- end -}}
