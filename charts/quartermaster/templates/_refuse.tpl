{{/* refuse: values that do not go together, each with what to do. */}}
{{- define "quartermaster.refuse" -}}
{{- $guard := .Values.guard -}}
{{- if and (eq .Values.mode "replace-default") (lt (int (default 2 .Values.scheduler.replicas)) 2) -}}
  {{- fail (printf "scheduler.replicas is %d and mode is replace-default: with no other scheduler in the cluster, nobody would place the successor of a single replica; set scheduler.replicas to 2 or more, or leave it out" (int .Values.scheduler.replicas)) -}}
{{- end -}}
{{- if eq .Values.mode "none" -}}
  {{- range $name := list "gangScheduling" "podGroups" "deviceBookings" "monitoring" "alphaApi" -}}
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
    {{- fail (printf "guard.inScheduler is true and mode is %s: only a second scheduler can be the guard as well, because only the deciding replica is ready; set mode to secondary, or guard.inScheduler to false" .Values.mode) -}}
  {{- end -}}
  {{- if or (ne $guard.certificates "self-managed") $guard.clientCertificates $guard.onlyFrom -}}
    {{- fail "guard.inScheduler is true, and guard.certificates, guard.clientCertificates or guard.onlyFrom is set: these are for a guard in pods of its own; set guard.inScheduler to false, or leave the others out" -}}
  {{- end -}}
  {{- range $name := list "replicas" "resources" "nodeSelector" "tolerations" "affinity" "priorityClassName" "topologySpreadConstraints" "hostNetwork" "podLabels" "podAnnotations" "extraEnv" "extraVolumes" "extraVolumeMounts" -}}
    {{- if index $guard $name -}}
      {{- fail (printf "guard.inScheduler is true, and guard.%s is set: the guard has no pods of its own then; set scheduler.%s instead" $name $name) -}}
    {{- end -}}
  {{- end -}}
  {{- if .Values.scheduler.strategy -}}
    {{- fail "guard.inScheduler is true, and scheduler.strategy is set: a new pod gets ready only after the old one is gone, for which the Deployment has a strategy; leave scheduler.strategy out" -}}
  {{- end -}}
{{- end -}}
{{- if and $guard.hostNetwork $guard.onlyFrom -}}
  {{- fail "guard.hostNetwork is true, and guard.onlyFrom is set: a NetworkPolicy does not hold for pods in the network of their node; set guard.clientCertificates to true, and leave guard.onlyFrom out" -}}
{{- end -}}
{{- if not (or .Values.scheduler.serviceAccount.create .Values.scheduler.serviceAccount.name) -}}
  {{- fail "scheduler.serviceAccount.create is false, and scheduler.serviceAccount.name is empty: the scheduler needs an account; set the name of one in the namespace of the release, or create to true" -}}
{{- end -}}
{{- range $name, $labels := dict "commonLabels" .Values.commonLabels "scheduler.podLabels" .Values.scheduler.podLabels "guard.podLabels" $guard.podLabels "monitoring.labels" .Values.monitoring.labels -}}
  {{- range $label, $value := $labels -}}
    {{- if or (hasPrefix "app.kubernetes.io/" $label) (hasPrefix "helm.sh/" $label) -}}
      {{- fail (printf "%s has the label %s, which the chart sets, and by which pods are selected; take another label, or set nameOverride" $name $label) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- include "quartermaster.refuseMissing" . -}}
{{- with .Values.scheduler.config -}}
  {{- include "quartermaster.refuseConfig" $ -}}
{{- end -}}
{{- end -}}

{{/*
refuseMissing: kinds that others install. Without a server, as with "helm template", nobody knows which there are: then all are
taken to be there.
*/}}
{{- define "quartermaster.refuseMissing" -}}
{{- if lookup "v1" "Namespace" "" "kube-system" -}}
  {{- $has := .Capabilities.APIVersions -}}
  {{- if and .Values.monitoring.enabled (not (and ($has.Has "monitoring.coreos.com/v1/PodMonitor") ($has.Has "monitoring.coreos.com/v1/PrometheusRule"))) -}}
    {{- fail "monitoring.enabled is true, and the cluster has no kinds PodMonitor and PrometheusRule (monitoring.coreos.com/v1): they come with the Prometheus operator; install it first, or set monitoring.enabled to false" -}}
  {{- end -}}
  {{- $guard := .Values.guard -}}
  {{- if and $guard.enabled (eq $guard.certificates "cert-manager") (not (and ($has.Has "cert-manager.io/v1/Certificate") ($has.Has "cert-manager.io/v1/Issuer"))) -}}
    {{- fail "guard.certificates is cert-manager, and the cluster has no kinds Certificate and Issuer (cert-manager.io/v1); install cert-manager first, or set guard.certificates to self-managed" -}}
  {{- end -}}
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
{{- if .Values.scheduler.args -}}
  {{- fail "scheduler.args and scheduler.config are set; the arguments are for the configuration that is shipped. Take them into scheduler.config, under pluginConfig, and leave scheduler.args out" -}}
{{- end -}}
{{- $election := default dict $config.leaderElection -}}
{{- $lease := printf "%s/%s" (default "kube-system" $election.resourceNamespace) (default "kube-scheduler" $election.resourceName) -}}
{{- if ne $lease (include "quartermaster.lease" .) -}}
  {{- fail (printf "scheduler.config has the Lease %s, and with mode %s and namespace %s the scheduler has rights for %s; set leaderElection.resourceNamespace and leaderElection.resourceName to that" $lease .Values.mode .Release.Namespace (include "quartermaster.lease" .)) -}}
{{- end -}}
{{- end -}}
