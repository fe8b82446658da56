{{/*
pods: what values say about the pods of a Deployment. settings are those of .Values.scheduler or .Values.guard.
*/}}
{{- define "quartermaster.pods" -}}
{{- $spec := .deployment.spec.template.spec -}}
{{- $container := first $spec.containers -}}
{{- $image := .root.Values.image -}}
{{- $_ := set $container "image" (include "quartermaster.image" .root) -}}
{{- if $image.pullPolicy -}}
  {{- $_ := set $container "imagePullPolicy" $image.pullPolicy -}}
{{- end -}}
{{- range $image.pullSecrets -}}
  {{- $_ := set $spec "imagePullSecrets" (append (default list $spec.imagePullSecrets) (dict "name" .)) -}}
{{- end -}}
{{- with .settings.replicas -}}
  {{- $_ := set $.deployment.spec "replicas" (int .) -}}
{{- end -}}
{{- $_ := set $container "command" (concat $container.command .settings.extraArgs) -}}
{{- with .settings.resources -}}
  {{- $_ := set $container "resources" . -}}
{{- end -}}
{{- with .settings.nodeSelector -}}
  {{- $_ := set $spec "nodeSelector" (mergeOverwrite (deepCopy $spec.nodeSelector) .) -}}
{{- end -}}
{{- $_ := set $spec "tolerations" (concat $spec.tolerations .settings.tolerations) -}}
{{- with .settings.affinity -}}
  {{- $_ := set $spec "affinity" . -}}
{{- end -}}
{{- with .settings.priorityClassName -}}
  {{- $_ := set $spec "priorityClassName" . -}}
{{- end -}}
{{- with .settings.topologySpreadConstraints -}}
  {{- $selector := deepCopy $.deployment.spec.selector.matchLabels -}}
  {{- if eq (index $selector "app.kubernetes.io/component") "scheduler" -}}
    {{- $_ := set $selector "app.kubernetes.io/name" (include "quartermaster.name" $.root) -}}
  {{- end -}}
  {{- $constraints := list -}}
  {{- range . -}}
    {{- $constraints = append $constraints (merge (dict) . (dict "labelSelector" (dict "matchLabels" $selector))) -}}
  {{- end -}}
  {{- $_ := set $spec "topologySpreadConstraints" $constraints -}}
{{- end -}}
{{- if .settings.hostNetwork -}}
  {{- $_ := set $spec "hostNetwork" true -}}
  {{- $_ := set $spec "dnsPolicy" "ClusterFirstWithHostNet" -}}
{{- end -}}
{{- with .settings.extraEnv -}}
  {{- $_ := set $container "env" (concat (default list $container.env) .) -}}
{{- end -}}
{{- with .settings.extraVolumes -}}
  {{- $_ := set $spec "volumes" (concat (default list $spec.volumes) .) -}}
{{- end -}}
{{- with .settings.extraVolumeMounts -}}
  {{- $_ := set $container "volumeMounts" (concat (default list $container.volumeMounts) .) -}}
{{- end -}}
{{- $metadata := .deployment.spec.template.metadata -}}
{{- $_ := set $metadata "labels" (mergeOverwrite (deepCopy .root.Values.commonLabels) .settings.podLabels $metadata.labels) -}}
{{- with .settings.podAnnotations -}}
  {{- $_ := set $metadata "annotations" . -}}
{{- end -}}
{{- end -}}

{{- define "quartermaster.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ default .Chart.AppVersion $image.tag }}
{{- end -}}
{{- end -}}

{{/* mount: a volume for the container of a Deployment, read-only. */}}
{{- define "quartermaster.mount" -}}
{{- $spec := .deployment.spec.template.spec -}}
{{- $container := first $spec.containers -}}
{{- $name := .volume.name -}}
{{- $_ := set $spec "volumes" (append (default list $spec.volumes) .volume) -}}
{{- $_ := set $container "volumeMounts" (append (default list $container.volumeMounts) (dict "name" $name "mountPath" .path "readOnly" true)) -}}
{{- end -}}

{{/* arguments: more of them for the container of a Deployment. */}}
{{- define "quartermaster.arguments" -}}
{{- $container := first .deployment.spec.template.spec.containers -}}
{{- $_ := set $container "command" (concat $container.command .arguments) -}}
{{- end -}}
