{{/* refuse: values that do not go together, each with what to do. */}}
{{- define "quartermaster.refuse" -}}
{{- $guard := .Values.guard -}}
{{- if and (eq .Values.mode "replace-default") (lt (int (default 2 .Values.scheduler.replicas)) 2) -}}
  {{- fail (printf "scheduler.replicas is %d and mode is replace-default: with no other scheduler in the cluster, nobody would place the successor of a single replica; set scheduler.replicas to 2 or more, or leave it out" (int .Values.scheduler.replicas)) -}}
{{- end -}}
{{- if eq .Values.mode "none" -}}
  {{- range $name := list "gangScheduling" "podGroups" "monitoring" "alphaApi" -}}
    {{- if (index $.Values $name).enabled -}}
      {{- fail (printf "%s.enabled is true and mode is none: it is for the scheduler of this release, and there is none; set mode to secondary or replace-default, or %s.enabled to false" $name $name) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- if and $guard.enabled (dig "metadata" "deletionTimestamp" "" (default dict (lookup "v1" "Namespace" "" "quartermaster-guard"))) -}}
  {{- fail "the namespace quartermaster-guard is still ending, from a guard that was there before; nothing can be installed into it. Run the same command again in some seconds" -}}
{{- end -}}
{{- if and $guard.enabled (eq .Release.Namespace "quartermaster-guard") -}}
  {{- fail "the namespace of the release is quartermaster-guard, which the chart makes and deletes for the guard, and Helm's record of the release would go with it; install it into another one, such as kube-system" -}}
{{- end -}}
{{- if and $guard.enabled $guard.inScheduler -}}
  {{- if ne .Values.mode "secondary" -}}
    {{- fail (printf "guard.inScheduler is true and mode is %s: only a second scheduler can be the guard as well, because of its replicas none but the one that decides is ready; set mode to secondary, or guard.inScheduler to false" .Values.mode) -}}
  {{- end -}}
  {{- if or (ne $guard.certificates "self-managed") $guard.clientCertificates $guard.onlyFrom -}}
    {{- fail "guard.inScheduler is true, and guard.certificates, guard.clientCertificates or guard.onlyFrom is set: these are for a guard in pods of its own; set guard.inScheduler to false, or leave the others out" -}}
  {{- end -}}
  {{- if or $guard.replicas $guard.resources $guard.nodeSelector $guard.tolerations $guard.affinity -}}
    {{- fail "guard.inScheduler is true, and guard.replicas, resources, nodeSelector, tolerations or affinity is set: the guard has no pods of its own then; set those of scheduler instead" -}}
  {{- end -}}
{{- end -}}
{{- with .Values.scheduler.config -}}
  {{- include "quartermaster.refuseConfig" $ -}}
{{- end -}}
{{- end -}}

{{/* refuseConfig: a configuration that the scheduler could not start with, or has no rights for. */}}
{{- define "quartermaster.refuseConfig" -}}
{{- $config := fromYaml .Values.scheduler.config -}}
{{- if $config.Error -}}
  {{- fail (printf "scheduler.config is no YAML: %s; give a KubeSchedulerConfiguration as text, for instance with --set-file scheduler.config=FILE" $config.Error) -}}
{{- end -}}
{{- if ne (toString $config.kind) "KubeSchedulerConfiguration" -}}
  {{- fail (printf "scheduler.config has kind %v, want KubeSchedulerConfiguration; give the content of the file, for instance with --set-file scheduler.config=FILE" $config.kind) -}}
{{- end -}}
{{- if .Values.gangScheduling.enabled -}}
  {{- fail "gangScheduling.enabled is true, and scheduler.config is set, in which it would change nothing; take what manifests/gang-scheduling/scheduler-config.yaml has about gangs into scheduler.config, and set gangScheduling.enabled to false" -}}
{{- end -}}
{{- $election := default dict $config.leaderElection -}}
{{- $lease := printf "%s/%s" (default "kube-system" $election.resourceNamespace) (default "kube-scheduler" $election.resourceName) -}}
{{- if ne $lease (include "quartermaster.lease" .) -}}
  {{- fail (printf "scheduler.config has the Lease %s, and with mode %s and namespace %s the scheduler has rights for %s; set leaderElection.resourceNamespace and leaderElection.resourceName to that" $lease .Values.mode .Release.Namespace (include "quartermaster.lease" .)) -}}
{{- end -}}
{{- end -}}
