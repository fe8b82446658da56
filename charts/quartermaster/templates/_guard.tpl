{{/* guardObject: an object of manifests/guard, changed as the other kustomizations of the guard and values do. */}}
{{- define "quartermaster.guardObject" -}}
{{- $values := .root.Values.guard -}}
{{- $object := .object -}}
{{- include "quartermaster.move" . -}}
{{- if eq $object.kind "Deployment" -}}
  {{- include "quartermaster.guardDeployment" (dict "root" .root "deployment" $object) -}}
{{- else if eq $object.kind "ValidatingWebhookConfiguration" -}}
  {{- $_ := set (first $object.webhooks) "failurePolicy" $values.failurePolicy -}}
{{- else if and (eq $object.kind "Namespace") $values.hostNetwork -}}
  {{- $_ := set $object.metadata.labels "pod-security.kubernetes.io/enforce" "privileged" -}}
{{- else if and (eq $object.kind "NetworkPolicy") $values.onlyFrom -}}
  {{- range $object.spec.ingress -}}
    {{- $rule := . -}}
    {{- range $values.onlyFrom -}}
      {{- $_ := set $rule "from" (append (default list $rule.from) (dict "ipBlock" (dict "cidr" .))) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- if eq $values.certificates "cert-manager" -}}
  {{- include "quartermaster.guardCertManager" . -}}
{{- end -}}
{{- if $values.inScheduler -}}
  {{- include "quartermaster.guardOfScheduler" . -}}
{{- end -}}
{{- end -}}

{{- define "quartermaster.guardDeployment" -}}
{{- $values := .root.Values.guard -}}
{{- $container := first .deployment.spec.template.spec.containers -}}
{{- $_ := set $container "command" (list (first $container.command) (printf "--mode=%s" $values.mode)) -}}
{{- if eq $values.certificates "cert-manager" -}}
  {{- include "quartermaster.arguments" (dict "deployment" .deployment "arguments" (list "--tls-cert-file=/etc/quartermaster-guard/tls.crt" "--tls-private-key-file=/etc/quartermaster-guard/tls.key")) -}}
  {{- include "quartermaster.mount" (dict "deployment" .deployment "path" "/etc/quartermaster-guard" "volume" (dict "name" "certificate" "secret" (dict "secretName" "quartermaster-guard-certificate"))) -}}
{{- end -}}
{{- if $values.clientCertificates -}}
  {{- include "quartermaster.arguments" (dict "deployment" .deployment "arguments" (list "--client-ca-file=/etc/quartermaster-guard-clients/ca.crt")) -}}
  {{- include "quartermaster.mount" (dict "deployment" .deployment "path" "/etc/quartermaster-guard-clients" "volume" (dict "name" "client-ca" "configMap" (dict "name" "quartermaster-guard-client-ca"))) -}}
{{- end -}}
{{- include "quartermaster.pods" (dict "root" .root "deployment" .deployment "settings" $values) -}}
{{- end -}}

{{/*
guardCertManager: cert-manager fills in caBundle and has the certificate authority, so the guard needs to write neither
(manifests/guard-cert-manager).
*/}}
{{- define "quartermaster.guardCertManager" -}}
{{- $object := .object -}}
{{- if eq $object.kind "ValidatingWebhookConfiguration" -}}
  {{- $_ := set $object.metadata.annotations "cert-manager.io/inject-ca-from" "quartermaster-guard/quartermaster-guard" -}}
{{- else if and (has $object.kind (list "ClusterRole" "Role")) (eq $object.metadata.name "quartermaster-guard") -}}
  {{- $rules := list -}}
  {{- range $object.rules -}}
    {{- if has "validatingwebhookconfigurations" .resources -}}
      {{- $_ := set . "verbs" (list "get") -}}
    {{- end -}}
    {{- if not (has "secrets" .resources) -}}
      {{- $rules = append $rules . -}}
    {{- end -}}
  {{- end -}}
  {{- $_ := set $object "rules" $rules -}}
{{- end -}}
{{- end -}}

{{/*
guardOfScheduler: API servers ask the pod of the scheduler, in its namespace, whose account has the guard's rights
(manifests/guard-in-scheduler).
*/}}
{{- define "quartermaster.guardOfScheduler" -}}
{{- $namespace := .root.Release.Namespace -}}
{{- $object := .object -}}
{{- if eq $object.kind "Service" -}}
  {{- $_ := set $object.metadata "namespace" $namespace -}}
  {{- $_ := set $object.spec.selector "app.kubernetes.io/component" "scheduler" -}}
  {{- $_ := set $object.spec.selector "app.kubernetes.io/name" (include "quartermaster.name" .root) -}}
  {{- $_ := set (first $object.spec.ports) "targetPort" "guard" -}}
{{- else if eq $object.kind "ValidatingWebhookConfiguration" -}}
  {{- $_ := set (first $object.webhooks).clientConfig.service "namespace" $namespace -}}
{{- else if eq $object.kind "NetworkPolicy" -}}
  {{- $_ := set $object.metadata "namespace" $namespace -}}
  {{- $_ := set $object.spec.podSelector.matchLabels "app.kubernetes.io/component" "scheduler" -}}
  {{- $_ := set $object.spec.podSelector.matchLabels "app.kubernetes.io/name" (include "quartermaster.name" .root) -}}
  {{- $_ := set (first $object.spec.ingress) "ports" (list (dict "port" "guard" "protocol" "TCP") (dict "port" "https" "protocol" "TCP")) -}}
{{- else if and (hasSuffix "RoleBinding" $object.kind) (eq $object.metadata.name "quartermaster-guard") -}}
  {{- $_ := set $object "subjects" (list (dict "kind" "ServiceAccount" "name" "quartermaster" "namespace" $namespace)) -}}
{{- end -}}
{{- end -}}
