{{/* lease: the Lease that the scheduler leads by, and its namespace. */}}
{{- define "quartermaster.lease" -}}
{{- if eq .Values.mode "replace-default" -}}
kube-system/kube-scheduler
{{- else -}}
{{ .Release.Namespace }}/quartermaster
{{- end -}}
{{- end -}}

{{/*
config: the KubeSchedulerConfiguration, as text, so that its comments stay. manifests/gang-scheduling is for a second
scheduler; these two names make it one, as in manifests/secondary.
*/}}
{{- define "quartermaster.config" -}}
{{- $folder := ternary "gang-scheduling" .Values.mode .Values.gangScheduling.enabled -}}
{{- $text := include "quartermaster.file" (dict "root" . "path" (printf "%s/scheduler-config.yaml" $folder)) -}}
{{- if eq .Values.mode "replace-default" -}}
  {{- $text = $text | replace "schedulerName: quartermaster\n" "schedulerName: default-scheduler\n" | replace "resourceName: quartermaster\n" "resourceName: kube-scheduler\n" -}}
  {{- if .Values.gangScheduling.enabled -}}
    {{- $text = printf "%s\n    pluginConfig:\n      - name: Quartermaster\n        args:\n          placePodsWithoutDevices: true\n" (trimSuffix "\n" $text) -}}
  {{- end -}}
{{- else -}}
  {{- $text = $text | replace "resourceNamespace: kube-system\n" (printf "resourceNamespace: %s\n" (toYaml .Release.Namespace)) -}}
{{- end -}}
{{- with .Values.scheduler.args -}}
  {{- /* The files end in their only profile, and that in the arguments of the plugin, if it has any. */}}
  {{- $text = trimSuffix "\n" $text -}}
  {{- range $name, $_ := . -}}
    {{- $text = regexReplaceAll (printf "\n {10}%s: [^\n]*" $name) $text "" -}}
  {{- end -}}
  {{- if not (contains "\n    pluginConfig:\n" $text) -}}
    {{- $text = printf "%s\n    pluginConfig:\n      - name: Quartermaster\n        args:" $text -}}
  {{- end -}}
  {{- $text = printf "%s\n%s\n" $text (toYaml . | indent 10) -}}
{{- end -}}
{{- default $text .Values.scheduler.config -}}
{{- end -}}

{{/*
configMap: the ConfigMap with the configuration. Its name ends with a hash of the content, the one that kustomize makes:
a changed configuration rolls the Deployment. (What kustomize hashes has a name, which is empty.)
*/}}
{{- define "quartermaster.configMap" -}}
{{- $data := dict "scheduler-config.yaml" (include "quartermaster.config" .) -}}
{{- $hash := dict "kind" "ConfigMap" "name" "" "data" $data | toJson | sha256sum | trunc 10 -}}
{{- $hash = $hash | replace "0" "g" | replace "1" "h" | replace "3" "k" | replace "a" "m" | replace "e" "t" -}}
{{- $metadata := dict "name" (printf "quartermaster-config-%s" $hash) "namespace" .Release.Namespace -}}
{{- dict "apiVersion" "v1" "kind" "ConfigMap" "metadata" $metadata "data" $data | toYaml -}}
{{- end -}}

{{/* deployment: the Deployment of manifests/base as the mode and values want it. */}}
{{- define "quartermaster.deployment" -}}
{{- $root := .root -}}
{{- $deployment := .deployment -}}
{{- $_ := set (first $deployment.spec.template.spec.volumes).configMap "name" (include "quartermaster.renamed" (dict "root" $root "name" .configMap)) -}}
{{- if eq $root.Values.mode "replace-default" -}}
  {{- $replicas := include "quartermaster.file" (dict "root" $root "path" "replace-default/replicas.yaml") | fromYaml -}}
  {{- $_ := mergeOverwrite $deployment.spec $replicas.spec -}}
{{- end -}}
{{- if and $root.Values.guard.enabled $root.Values.guard.inScheduler -}}
  {{- include "quartermaster.guardInScheduler" . -}}
{{- end -}}
{{- with $root.Values.scheduler.strategy -}}
  {{- $_ := set $deployment.spec "strategy" . -}}
{{- end -}}
{{- include "quartermaster.pods" (dict "root" $root "deployment" $deployment "settings" $root.Values.scheduler) -}}
{{- end -}}

{{/* guardInScheduler: what manifests/guard-in-scheduler changes in the Deployment of the scheduler. */}}
{{- define "quartermaster.guardInScheduler" -}}
{{- $values := .root.Values.guard -}}
{{- $container := first .deployment.spec.template.spec.containers -}}
{{- $patch := include "quartermaster.file" (dict "root" .root "path" "guard-in-scheduler/deployment.yaml") | fromYaml -}}
{{- $with := first $patch.spec.template.spec.containers -}}
{{- $_ := set .deployment.spec "strategy" $patch.spec.strategy -}}
{{- $_ := set $container "ports" (concat $with.ports $container.ports) -}}
{{- $_ := mergeOverwrite $container.readinessProbe $with.readinessProbe -}}
{{- $service := printf "--guard-service=%s/quartermaster-guard" .root.Release.Namespace -}}
{{- include "quartermaster.arguments" (dict "deployment" .deployment "arguments" (concat (list "--guard" (printf "--guard-mode=%s" $values.mode) $service) $values.extraArgs)) -}}
{{- end -}}
