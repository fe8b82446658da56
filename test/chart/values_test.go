package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/loader"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// podSettings is one value of each kind that pods have.
func podSettings() values {
	return values{
		"replicas": 3, "extraArgs": []any{"--v=4"},
		"resources":    values{"requests": values{"memory": "2Gi"}},
		"nodeSelector": values{"pool": "system"},
		"tolerations":  []any{values{"key": "dedicated", "operator": "Exists"}},
		"affinity":     values{"podAntiAffinity": values{"requiredDuringSchedulingIgnoredDuringExecution": []any{}}},

		"priorityClassName":         "critical",
		"topologySpreadConstraints": []any{values{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}},
		"hostNetwork":               true,
		"podLabels":                 values{"sidecar": "false"},
		"podAnnotations":            values{"example.com/scrape": "true"},
		"extraEnv":                  []any{values{"name": "GOMEMLIMIT", "value": "3GiB"}},
		"extraVolumes":              []any{values{"name": "certificate", "secret": values{"secretName": "own"}}},
		"extraVolumeMounts":         []any{values{"name": "certificate", "mountPath": "/own", "readOnly": true}},
	}
}

// at returns a field of an object.
func at(t *testing.T, object map[string]any, fields ...string) any {
	t.Helper()
	found, exists, err := unstructured.NestedFieldNoCopy(object, fields...)
	require.NoError(t, err)
	require.True(t, exists, "%v", fields)
	return found
}

// podOf returns what a Deployment has as the spec of its pods, and their container.
func podOf(t *testing.T, deployment *unstructured.Unstructured) (spec, container map[string]any) {
	t.Helper()
	spec = at(t, deployment.Object, "spec", "template", "spec").(map[string]any)
	return spec, spec["containers"].([]any)[0].(map[string]any)
}

// TestPodValues: what values say about pods is what their Deployment has, for the scheduler and for the guard, and the rest
// is as shipped.
func TestPodValues(t *testing.T) {
	t.Parallel()
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	set := values{
		"mode": "replace-default", "scheduler": podSettings(), "guard": podSettings(),
		"image": values{"repository": "registry.example.com/q", "tag": "v1", "pullPolicy": "Always", "pullSecrets": []any{"one", "two"}},
	}
	set["guard"].(values)["enabled"] = true
	set["guard"].(values)["mode"] = "Enforce"
	set["guard"].(values)["failurePolicy"] = "Fail"
	rendered := render(t, releaseNamespace, set)
	shipped := map[string]objects{"Deployment kube-system/quartermaster": folder(t, "replace-default"), "Deployment quartermaster-guard/quartermaster-guard": folder(t, "guard")}
	for name, as := range shipped {
		deployment := rendered[name]
		spec, container := podOf(t, deployment)
		_, before := podOf(t, as[name])
		require.EqualValues(t, 3, at(t, deployment.Object, "spec", "replicas"))
		require.Equal(t, "registry.example.com/q:v1", container["image"])
		require.Equal(t, "Always", container["imagePullPolicy"])
		require.Equal(t, []any{map[string]any{"name": "one"}, map[string]any{"name": "two"}}, spec["imagePullSecrets"])
		require.Equal(t, map[string]any{"requests": map[string]any{"memory": "2Gi"}}, container["resources"])
		require.Equal(t, map[string]any{"kubernetes.io/os": "linux", "pool": "system"}, spec["nodeSelector"])
		require.Len(t, spec["tolerations"], 2)
		require.Contains(t, spec["affinity"], "podAntiAffinity")
		require.NotContains(t, at(t, spec, "affinity", "podAntiAffinity"), "preferredDuringSchedulingIgnoredDuringExecution")
		command := container["command"].([]any)
		require.Equal(t, "--v=4", command[len(command)-1])
		require.Len(t, command, len(before["command"].([]any))+1)
		require.Equal(t, before["securityContext"], container["securityContext"])
		requireMorePodSettings(t, deployment, as[name])
	}
	_, guard := podOf(t, rendered["Deployment quartermaster-guard/quartermaster-guard"])
	require.Contains(t, guard["command"], "--mode=Enforce")
	require.NotContains(t, guard["command"], "--mode=Warn")
	webhook := rendered.only(t, "ValidatingWebhookConfiguration")
	require.Equal(t, "Fail", webhook.Object["webhooks"].([]any)[0].(map[string]any)["failurePolicy"])

	set["image"].(values)["digest"] = digest
	_, container := podOf(t, render(t, releaseNamespace, set)["Deployment kube-system/quartermaster"])
	require.Equal(t, "registry.example.com/q@"+digest, container["image"])
}

// requireMorePodSettings looks at the rest of podSettings. What was shipped is still there, and what selects the pods is as it was.
func requireMorePodSettings(t *testing.T, deployment, shipped *unstructured.Unstructured) {
	t.Helper()
	spec, container := podOf(t, deployment)
	before, containerBefore := podOf(t, shipped)
	require.Equal(t, "critical", spec["priorityClassName"])
	require.Equal(t, []any{map[string]any{"maxSkew": int64(2), "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
		"labelSelector": at(t, shipped.Object, "spec", "selector")}}, spec["topologySpreadConstraints"])
	require.Equal(t, true, spec["hostNetwork"])
	require.Equal(t, "ClusterFirstWithHostNet", spec["dnsPolicy"])
	require.Equal(t, []any{map[string]any{"name": "GOMEMLIMIT", "value": "3GiB"}}, container["env"])
	volumes, _ := before["volumes"].([]any)
	require.Equal(t, "certificate", spec["volumes"].([]any)[len(volumes)].(map[string]any)["name"])
	mounts, _ := containerBefore["volumeMounts"].([]any)
	require.Equal(t, "/own", container["volumeMounts"].([]any)[len(mounts)].(map[string]any)["mountPath"])
	metadata := at(t, deployment.Object, "spec", "template", "metadata").(map[string]any)
	require.Equal(t, map[string]any{"example.com/scrape": "true"}, metadata["annotations"])
	labels := metadata["labels"].(map[string]any)
	require.Equal(t, "false", labels["sidecar"])
	delete(labels, "sidecar")
	require.Equal(t, at(t, shipped.Object, "spec", "template", "metadata", "labels"), labels)
	require.Equal(t, at(t, shipped.Object, "spec", "selector"), at(t, deployment.Object, "spec", "selector"))
}

// TestGuardInSchedulerValues: the flags of a guard in the scheduler are the scheduler's.
func TestGuardInSchedulerValues(t *testing.T) {
	t.Parallel()
	rendered := render(t, releaseNamespace, values{"guard": values{
		"enabled": true, "inScheduler": true, "mode": "Enforce", "failurePolicy": "Fail", "extraArgs": []any{"--guard-request-timeout=2m"}}})
	_, container := podOf(t, rendered.only(t, "Deployment"))
	require.Subset(t, container["command"], []any{"--guard", "--guard-mode=Enforce", "--guard-request-timeout=2m"})
	require.NotContains(t, container["command"], "--guard-mode=Warn")
	webhook := rendered.only(t, "ValidatingWebhookConfiguration")
	require.Equal(t, "Fail", webhook.Object["webhooks"].([]any)[0].(map[string]any)["failurePolicy"])
}

// TestGangsInPlaceOfTheDefault: the configuration for both is that of manifests/replace-default, and what gang-scheduling has
// besides.
func TestGangsInPlaceOfTheDefault(t *testing.T) {
	t.Parallel()
	parse := func(text string) (config map[string]any) {
		require.NoError(t, yaml.Unmarshal([]byte(text), &config))
		return config
	}
	shipped, err := os.ReadFile(manifestsFolder + "/replace-default/scheduler-config.yaml")
	require.NoError(t, err)
	rendered := render(t, releaseNamespace, values{"mode": "replace-default", "gangScheduling": values{"enabled": true}})
	both := parse(at(t, rendered.only(t, "ConfigMap").Object, "data", "scheduler-config.yaml").(string))
	plugins := at(t, both["profiles"].([]any)[0].(map[string]any), "plugins").(map[string]any)
	for _, point := range []string{"queueSort", "placementGenerate", "placementScore"} {
		require.Contains(t, plugins, point)
		delete(plugins, point)
	}
	require.Equal(t, parse(string(shipped)), both)
}

// TestOwnConfig: a configuration of the user's takes the place of the shipped one, as it is, and has the Deployment roll.
func TestOwnConfig(t *testing.T) {
	t.Parallel()
	const own = `# Mine.
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {resourceName: quartermaster}
profiles: []
`
	rendered := render(t, releaseNamespace, values{"scheduler": values{"config": own}})
	config := rendered.only(t, "ConfigMap")
	require.Equal(t, own, at(t, config.Object, "data", "scheduler-config.yaml"))
	require.NotContains(t, folder(t, "secondary"), key(config))
	spec, _ := podOf(t, rendered.only(t, "Deployment"))
	require.Equal(t, config.GetName(), at(t, spec["volumes"].([]any)[0].(map[string]any), "configMap", "name"))
}

// TestValuesThatTheSchemaRefuses: what is misspelt or impossible is refused, with a message that names it.
func TestValuesThatTheSchemaRefuses(t *testing.T) {
	t.Parallel()
	for text, message := range map[string]string{
		"{mode: replace}":                                "at '/mode': value must be one of 'secondary', 'replace-default', 'none'",
		"{mode: null}":                                   "missing property 'mode'",
		"{gaurd: {enabled: true}}":                       "additional properties 'gaurd' not allowed",
		"{guard: {enable: true}}":                        "at '/guard': additional properties 'enable' not allowed",
		"{guard: {enabled: 'yes'}}":                      "at '/guard/enabled': got string, want boolean",
		"{guard: {mode: warn}}":                          "at '/guard/mode': value must be one of 'Warn', 'Enforce'",
		"{guard: {failurePolicy: ignore}}":               "at '/guard/failurePolicy': value must be one of 'Ignore', 'Fail'",
		"{guard: {certificates: own}}":                   "at '/guard/certificates': value must be one of 'self-managed', 'cert-manager'",
		"{guard: {onlyFrom: [192.0.2.1]}}":               "at '/guard/onlyFrom/0': '192.0.2.1' does not match pattern",
		"{guard: null}":                                  "missing property 'guard'",
		"{guard: true}":                                  "at '/guard': got boolean, want object",
		"{monitoring: true}":                             "at '/monitoring': got boolean, want object",
		"{scheduler: {replicas: 0}}":                     "at '/scheduler/replicas': minimum: got 0, want 1",
		"{scheduler: {replicas: '2'}}":                   "at '/scheduler/replicas': got string, want null or integer",
		"{scheduler: {config: {kind: x}}}":               "at '/scheduler/config': got object, want string",
		"{scheduler: {extraArgs: --v=4}}":                "at '/scheduler/extraArgs': got string, want array",
		"{scheduler: {extraArgs: [v=4]}}":                "at '/scheduler/extraArgs/0': 'v=4' does not match pattern",
		"{scheduler: {resources: {memory: 1Gi}}}":        "at '/scheduler/resources': additional properties 'memory' not allowed",
		"{scheduler: {nodeSelector: {gpu: true}}}":       "at '/scheduler/nodeSelector/gpu': got boolean, want string",
		"{image: registry.example.com/q:v1}":             "at '/image': got string, want object",
		"{image: {repository: r.example.com/q@sha256:}}": "at '/image/repository'",
		"{image: {tag: 1.10}}":                           "at '/image/tag': got number, want string",
		"{image: {digest: sha256:1}}":                    "at '/image/digest'",
		"{image: {pullPolicy: always}}":                  "at '/image/pullPolicy': value must be one of '', 'Always', 'IfNotPresent', 'Never'",
		"{scheduler: {args: {stratgy: pack}}}":           "at '/scheduler/args': additional properties 'stratgy' not allowed",
		"{scheduler: {args: {strategy: tight}}}":         "at '/scheduler/args/strategy': value must be one of 'leastFragmentation', 'consolidate', 'spread', 'pack'",
		"{scheduler: {podLabels: {a: 1}}}":               "at '/scheduler/podLabels/a': got number, want string",
		"{guard: {strategy: {type: Recreate}}}":          "at '/guard': additional properties 'strategy' not allowed",
		"{scheduler: {extraEnv: [{name: A, val: b}]}}":   "at '/scheduler/extraEnv/0': additional properties 'val' not allowed",
		"{scheduler: {strategy: {type: rolling}}}":       "at '/scheduler/strategy/type': value must be one of 'RollingUpdate', 'Recreate'",
		"{fullnameOverride: Devices}":                    "at '/fullnameOverride'",
		"{fullnameOverride: quartermaster-guard}":        "at '/fullnameOverride'",
		"{monitoring: {podLabels: {}}}":                  "at '/monitoring': additional properties 'podLabels' not allowed",
		"{deviceBookings: {crd: true}}":                  "at '/deviceBookings/crd': value must be one of 'keep', 'delete', 'none'",
		"{podGroups: {crd: true}}":                       "at '/podGroups/crd': value must be one of 'keep', 'delete', 'none'",
	} {
		var set values
		require.NoError(t, yaml.Unmarshal([]byte(text), &set))
		_, err := template(t, releaseNamespace, set)
		require.ErrorContains(t, err, message, text)
	}
}

// TestRefusedValues: values that do not go together are refused, with what to do.
func TestRefusedValues(t *testing.T) {
	t.Parallel()
	for text, message := range map[string]string{
		"{mode: replace-default, scheduler: {replicas: 1}}":                                                                                "set scheduler.replicas to 2 or more",
		"{mode: none, monitoring: {enabled: true}}":                                                                                        "monitoring.enabled is true and mode is none",
		"{mode: none, podGroups: {enabled: true}}":                                                                                         "podGroups.enabled is true and mode is none",
		"{mode: none, deviceBookings: {enabled: true}}":                                                                                    "deviceBookings.enabled is true and mode is none",
		"{mode: none, alphaApi: {enabled: true}}":                                                                                          "alphaApi.enabled is true and mode is none",
		"{mode: none, gangScheduling: {enabled: true}}":                                                                                    "gangScheduling.enabled is true and mode is none",
		"{mode: none, guard: {enabled: true, inScheduler: true}}":                                                                          "guard.inScheduler is true and mode is none",
		"{guard: {enabled: true, inScheduler: true, certificates: cert-manager}}":                                                          "for a guard in pods of its own",
		"{guard: {enabled: true, inScheduler: true, onlyFrom: [192.0.2.0/24]}}":                                                            "for a guard in pods of its own",
		"{guard: {enabled: true, inScheduler: true, replicas: 2}}":                                                                         "the guard has no pods of its own",
		"{guard: {enabled: true, inScheduler: true, podLabels: {a: b}}}":                                                                   "guard.podLabels is set: the guard has no pods of its own then; set scheduler.podLabels instead",
		"{guard: {enabled: true, inScheduler: true}, scheduler: {strategy: {type: Recreate}}}":                                             "leave scheduler.strategy out",
		"{guard: {enabled: true, hostNetwork: true, onlyFrom: [192.0.2.0/24]}}":                                                            "a NetworkPolicy does not hold for pods in the network of their node",
		"{scheduler: {serviceAccount: {create: false}}}":                                                                                   "scheduler.serviceAccount.name is empty",
		"{commonLabels: {app.kubernetes.io/name: mine}}":                                                                                   "commonLabels has the label app.kubernetes.io/name, which the chart sets",
		"{scheduler: {podLabels: {app.kubernetes.io/component: mine}}}":                                                                    "scheduler.podLabels has the label app.kubernetes.io/component",
		`{scheduler: {args: {strategy: pack}, config: "kind: KubeSchedulerConfiguration\nleaderElection: {resourceName: quartermaster}"}}`: "scheduler.args and scheduler.config are set",
		"{scheduler: {config: 'a: b: c'}}":                                                                                                 "scheduler.config is no YAML",
		"{scheduler: {config: 'kind: ConfigMap'}}":                                                                                         "scheduler.config has kind ConfigMap, want KubeSchedulerConfiguration",
		"{scheduler: {config: 'profiles: []'}}":                                                                                            "want KubeSchedulerConfiguration",
		"{scheduler: {config: '[]'}}":                                                                                                      "scheduler.config is no YAML",
		"{scheduler: {config: 'kind: KubeSchedulerConfiguration'}}":                                                                        "has the Lease kube-system/kube-scheduler, and with mode secondary and namespace kube-system the scheduler has rights for kube-system/quartermaster",
		`{mode: replace-default, scheduler: {config: "kind: KubeSchedulerConfiguration\nleaderElection: {resourceName: mine}"}}`:           "has the Lease kube-system/mine",
		`{gangScheduling: {enabled: true}, scheduler: {config: "kind: KubeSchedulerConfiguration\nleaderElection: {resourceName: quartermaster}"}}`: "in which it would change nothing",
	} {
		var set values
		require.NoError(t, yaml.Unmarshal([]byte(text), &set), text)
		_, err := template(t, releaseNamespace, set)
		require.ErrorContains(t, err, message, text)
	}
}

// TestNotes: what to do next depends on what was installed.
func TestNotes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"{mode: none}": {"mode is none and nothing else is enabled: this release has no objects"},
		"{mode: none, kubectlDevices: {enabled: true}}": {"there is no scheduler in this release", "--clusterrole=kubectl-devices-viewer"},
		"{fullnameOverride: devices}":                   {"rollout status deployment/devices"},
		"{}":                                            {"No image is published as", "schedulerName: quartermaster", "rollout status deployment/quartermaster"},
		"{mode: replace-default}":                       {"2. Stop kube-scheduler.", "start kube-scheduler again FIRST"},
		"{mode: none, guard: {enabled: true}}":          {"READY 1/2", "guard.mode=Enforce"},
		"{guard: {enabled: true, mode: Enforce, clientCertificates: true}}": {"guard.failurePolicy=Fail", "create configmap quartermaster-guard-client-ca"},
		"{guard: {enabled: true, inScheduler: true}}":                       {"decides as the guard"},
		"{podGroups: {enabled: true}}":                                      {"kubectl delete crd podgroups.scheduling.x-k8s.io"},
		"{podGroups: {enabled: true, crd: delete}}":                         {"WARNING: helm uninstall deletes"},
		"{deviceBookings: {enabled: true}}":                                 {"--clusterrole=device-bookings-editor", "kubectl delete crd devicebookings.quartermaster-dra.github.io"},
		"{deviceBookings: {enabled: true, crd: delete}}":                    {"WARNING: helm uninstall deletes"},
		"{monitoring: {enabled: true}, image: {repository: r, tag: '1'}}":   {"PodMonitors and PrometheusRules of namespace kube-system"},
	} {
		var set values
		require.NoError(t, yaml.Unmarshal([]byte(text), &set))
		rendered, err := template(t, releaseNamespace, set)
		require.NoError(t, err)
		for _, part := range want {
			require.Contains(t, rendered.Info.Notes, part, text)
		}
		installs := !strings.Contains(text, "none") || strings.Contains(text, "guard")
		require.Equal(t, installs && !strings.Contains(text, "image"), strings.Contains(rendered.Info.Notes, "No image is published"), text)
	}
}

// TestLint: Helm has nothing to say about the chart but that it has no icon, with its own values and with all additions.
func TestLint(t *testing.T) {
	t.Parallel()
	all := values{"guard": values{"enabled": true}, "gangScheduling": values{"enabled": true}}
	for _, value := range additions {
		all[value] = values{"enabled": true}
	}
	for _, set := range []values{{}, all} {
		result := lint.RunAll(chartFolder, set, releaseNamespace, lint.WithKubeVersion(kubeVersion))
		for _, message := range result.Messages {
			require.Equal(t, support.InfoSev, message.Severity, "%s", message)
			require.ErrorContains(t, message.Err, "icon is recommended")
		}
	}
}

// TestPackage: packaged with a version, as a release does, the chart has all that it needs in one file, renders the same, and
// its image is that of the release. The same files give the same bits.
func TestPackage(t *testing.T) {
	t.Parallel()
	var first []byte
	for range 2 {
		pack := action.NewPackage()
		pack.Version, pack.AppVersion, pack.Destination = "1.2.3", "v1.2.3", t.TempDir()
		moment := time.Unix(1700000000, 0)
		pack.SourceDateEpoch = &moment
		file, err := pack.Run(filepath.FromSlash(chartFolder), nil)
		require.NoError(t, err)
		require.Equal(t, "quartermaster-1.2.3.tgz", filepath.Base(file))
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		if first == nil {
			first = content
		}
		require.Equal(t, first, content)

		loaded, err := loader.LoadFile(file)
		require.NoError(t, err)
		for _, packed := range loaded.(*chart.Chart).Files {
			require.NotEqual(t, ".go", filepath.Ext(packed.Name))
		}
		rendered, err := templateChart(loaded.(*chart.Chart), releaseNamespace, values{})
		require.NoError(t, err)
		released := loadChart(t)
		released.Metadata.Version, released.Metadata.AppVersion = "1.2.3", "v1.2.3"
		want, err := templateChart(released, releaseNamespace, values{})
		require.NoError(t, err)
		require.Equal(t, decode(t, want.Manifest), decode(t, rendered.Manifest))
		require.Contains(t, rendered.Manifest, "image: ghcr.io/quartermaster-dra/quartermaster:v1.2.3\n")
	}
}

// TestIncompleteCopy: a copy in which the link to manifests leads nowhere is not taken for a chart without objects.
func TestIncompleteCopy(t *testing.T) {
	t.Parallel()
	loaded := loadChart(t)
	loaded.Files = nil
	_, err := templateChart(loaded, releaseNamespace, values{})
	require.ErrorContains(t, err, "the chart has no file manifests/secondary/scheduler-config.yaml; in the repository, manifests is a symbolic link")
}

// TestHook: there is one hook, for the Lease, and none in a release without a scheduler.
func TestHook(t *testing.T) {
	t.Parallel()
	for mode, events := range map[string][]release.HookEvent{
		"secondary":       {release.HookPostDelete},
		"replace-default": {release.HookPostDelete, release.HookPostUpgrade, release.HookPostRollback},
	} {
		rendered, err := template(t, "devices", values{"mode": mode})
		require.NoError(t, err)
		require.Len(t, rendered.Hooks, 1)
		require.Equal(t, "Lease devices/quartermaster", key(decode(t, rendered.Hooks[0].Manifest).only(t, "Lease")))
		require.Equal(t, events, rendered.Hooks[0].Events)
	}
	rendered, err := template(t, "devices", values{"mode": "none"})
	require.NoError(t, err)
	require.Empty(t, rendered.Hooks)
}

// Kubernetes 1.29 has no ValidatingAdmissionPolicies, and refuses an object of a kind that it does not know.
func TestNoPoliciesOnOldServers(t *testing.T) {
	t.Parallel()
	for minor, want := range map[string]bool{"29": false, "30": true, "37": true} {
		version := &common.KubeVersion{Version: "v1." + minor + ".3", Major: "1", Minor: minor}
		rendered, err := templateFor(version, loadChart(t), releaseNamespace, values{"guard": values{"enabled": true}})
		require.NoError(t, err)
		require.Equal(t, want, strings.Contains(rendered.Manifest, "kind: ValidatingAdmissionPolicy"), version)
		require.Contains(t, rendered.Manifest, "kind: ValidatingWebhookConfiguration")
	}
}
