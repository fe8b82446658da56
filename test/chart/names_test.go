package chart

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// everythingOfOurs enables all that can be enabled together.
func everythingOfOurs(more values) values {
	set := values{"mode": "replace-default", "guard": values{"enabled": true}}
	for _, value := range additions {
		set[value] = values{"enabled": true}
	}
	for name, value := range more {
		set[name] = value
	}
	return set
}

// TestCommonLabelsAndAnnotations: all objects have them, besides their own, and pods have the labels.
func TestCommonLabelsAndAnnotations(t *testing.T) {
	t.Parallel()
	more := values{"commonLabels": values{"team": "batch"}, "commonAnnotations": values{"example.com/owner": "batch"}}
	before := render(t, releaseNamespace, everythingOfOurs(nil))
	after := render(t, releaseNamespace, everythingOfOurs(more))
	require.Len(t, after, len(before))
	for name, object := range after {
		labels, annotations := object.GetLabels(), object.GetAnnotations()
		require.Equal(t, "batch", labels["team"], name)
		require.Equal(t, "batch", annotations["example.com/owner"], name)
		delete(labels, "team")
		delete(annotations, "example.com/owner")
		require.Equal(t, before[name].GetLabels(), labels, name)
		require.Equal(t, len(before[name].GetAnnotations()), len(annotations), name)
		if object.GetKind() == "Deployment" {
			require.Equal(t, "batch", at(t, object.Object, "spec", "template", "metadata", "labels", "team"))
			require.Equal(t, at(t, before[name].Object, "spec", "selector"), at(t, object.Object, "spec", "selector"))
		}
	}
}

// TestNames: with another name, all that refers to an object by its name does so by the new one. The guard keeps its names, because API
// servers and schedulers know them.
func TestNames(t *testing.T) {
	t.Parallel()
	for text, name := range map[string]string{
		"{nameOverride: devices}":                             "devices",
		"{fullnameOverride: devices}":                         "quartermaster",
		"{nameOverride: gpu, fullnameOverride: devices}":      "gpu",
		"{fullnameOverride: quartermaster-devices}":           "quartermaster",
		"{nameOverride: devices, guard: {inScheduler: true}}": "devices",
	} {
		var more values
		require.NoError(t, yaml.Unmarshal([]byte(text), &more))
		set := everythingOfOurs(more)
		if guard, own := more["guard"].(values); own {
			guard["enabled"], set["mode"] = true, "secondary"
		}
		set["scheduler"] = values{"topologySpreadConstraints": podSettings()["topologySpreadConstraints"]}
		full := "devices"
		if strings.Contains(text, "quartermaster-devices") {
			full = "quartermaster-devices"
		}
		requireNames(t, render(t, releaseNamespace, set), name, full)
	}
}

// requireNames looks at each object that has a name of ours, or refers to one.
func requireNames(t *testing.T, rendered objects, name, full string) {
	t.Helper()
	for id, object := range rendered {
		guard := strings.HasPrefix(object.GetName(), "quartermaster-guard")
		foreign := object.GetKind() == "CustomResourceDefinition" || slices.Contains([]string{"kubectl-devices-viewer", "device-bookings-editor"}, object.GetName())
		if !guard && !foreign {
			require.Regexp(t, "^"+full+"(-(alpha-api|authentication-reader|config-.*|dashboard|device-bookings|finalizer-at-creation|leader-election|metrics|pod-groups))?$", object.GetName(), id)
		}
		if !guard {
			require.Equal(t, name, object.GetLabels()["app.kubernetes.io/name"], id)
		}
		if role, bound := object.Object["roleRef"].(map[string]any); bound && role["name"] != "extension-apiserver-authentication-reader" {
			require.Contains(t, rendered, strings.TrimSpace(role["kind"].(string)+" "+namespaceOf(role["kind"].(string), object.GetNamespace())+"/"+role["name"].(string)), id)
		}
		subjects, _ := object.Object["subjects"].([]any)
		for _, subject := range subjects {
			s := subject.(map[string]any)
			require.Contains(t, rendered, "ServiceAccount "+s["namespace"].(string)+"/"+s["name"].(string), id)
		}
		switch object.GetKind() {
		case "PodDisruptionBudget", "PodMonitor":
			require.Equal(t, name, at(t, object.Object, "spec", "selector", "matchLabels", "app.kubernetes.io/name"), id)
		case "MutatingAdmissionPolicyBinding":
			require.Contains(t, rendered, "MutatingAdmissionPolicy /"+at(t, object.Object, "spec", "policyName").(string))
		case "Service", "NetworkPolicy":
			requireSelects(t, rendered, object.Object)
		case "Secret":
			require.Contains(t, rendered, "ServiceAccount kube-system/"+object.GetAnnotations()["kubernetes.io/service-account.name"])
		}
	}
	deployment := rendered["Deployment kube-system/"+full]
	spec, _ := podOf(t, deployment)
	require.Contains(t, rendered, "ServiceAccount kube-system/"+spec["serviceAccountName"].(string))
	require.Contains(t, rendered, "ConfigMap kube-system/"+at(t, spec["volumes"].([]any)[0].(map[string]any), "configMap", "name").(string))
	require.Equal(t, name, at(t, deployment.Object, "spec", "selector", "matchLabels", "app.kubernetes.io/name"))
	require.Equal(t, at(t, deployment.Object, "spec", "selector"), spec["topologySpreadConstraints"].([]any)[0].(map[string]any)["labelSelector"])
	require.Equal(t, name, at(t, deployment.Object, "spec", "template", "metadata", "labels", "app.kubernetes.io/name"))
	endpoint := at(t, rendered["PodMonitor kube-system/"+full].Object, "spec", "podMetricsEndpoints").([]any)[0].(map[string]any)
	require.Contains(t, rendered, "Secret kube-system/"+at(t, endpoint, "authorization", "credentials", "name").(string))
}

func namespaceOf(kind, namespace string) string {
	if kind == "ClusterRole" {
		return ""
	}
	return namespace
}

// requireSelects: a Service or a NetworkPolicy of the guard selects the pods of one of the Deployments.
func requireSelects(t *testing.T, rendered objects, object map[string]any) {
	t.Helper()
	selector := at(t, object, "spec").(map[string]any)["selector"]
	if object["kind"] == "NetworkPolicy" {
		selector = at(t, object, "spec", "podSelector", "matchLabels")
	}
	for _, deployment := range rendered {
		if deployment.GetKind() == "Deployment" && deployment.GetNamespace() == at(t, object, "metadata", "namespace") &&
			reflect.DeepEqual(at(t, deployment.Object, "spec", "template", "metadata", "labels"), selector) {
			return
		}
	}
	require.Fail(t, "nothing is selected", "%v", object)
}

// TestServiceAccount: the scheduler can have an account with annotations, and one that others have made.
func TestServiceAccount(t *testing.T) {
	t.Parallel()
	own := render(t, "devices", values{"guard": values{"enabled": true}, "scheduler": values{"serviceAccount": values{"name": "scheduler", "annotations": values{"example.com/role": "arn"}}}})
	require.Equal(t, map[string]string{"example.com/role": "arn"}, own["ServiceAccount devices/scheduler"].GetAnnotations())
	other := render(t, "devices", values{"guard": values{"enabled": true}, "scheduler": values{"serviceAccount": values{"name": "scheduler", "create": false}}})
	require.NotContains(t, other, "ServiceAccount devices/scheduler")
	require.Contains(t, other, "ServiceAccount quartermaster-guard/quartermaster-guard")
	for _, rendered := range []objects{own, other} {
		spec, _ := podOf(t, rendered["Deployment devices/quartermaster"])
		require.Equal(t, "scheduler", spec["serviceAccountName"])
		bound := 0
		for _, object := range rendered {
			subjects, _ := object.Object["subjects"].([]any)
			for _, subject := range subjects {
				if s := subject.(map[string]any); s["namespace"] == "devices" {
					require.Equal(t, "scheduler", s["name"], key(object))
					bound++
				}
			}
		}
		require.Equal(t, 4, bound)
	}
}

// TestMoreValues: the rest of what people set.
func TestMoreValues(t *testing.T) {
	t.Parallel()
	rendered := render(t, releaseNamespace, values{
		"monitoring": values{"enabled": true, "labels": values{"release": "prometheus"}},
		"scheduler":  values{"strategy": values{"type": "Recreate"}},
		"guard":      values{"enabled": true, "hostNetwork": true},
	})
	for name, object := range rendered {
		monitors := object.GetKind() == "PodMonitor" || object.GetKind() == "PrometheusRule"
		require.Equal(t, monitors, object.GetLabels()["release"] == "prometheus", name)
	}
	require.Equal(t, map[string]any{"type": "Recreate"}, at(t, rendered["Deployment kube-system/quartermaster"].Object, "spec", "strategy"))
	require.Equal(t, "privileged", rendered["Namespace /quartermaster-guard"].GetLabels()["pod-security.kubernetes.io/enforce"])
	restricted := render(t, releaseNamespace, values{"guard": values{"enabled": true}})
	require.Equal(t, "restricted", restricted["Namespace /quartermaster-guard"].GetLabels()["pod-security.kubernetes.io/enforce"])
}

// TestArguments: arguments of the plugin are added to each configuration that is shipped, which is otherwise as it was, down to its
// comments, and the Deployment rolls.
func TestArguments(t *testing.T) {
	t.Parallel()
	arguments := values{"strategy": "pack", "stepBudget": 2000000, "closeness": []any{}}
	for _, set := range []values{{}, {"mode": "replace-default"}, {"gangScheduling": values{"enabled": true}}} {
		before := render(t, releaseNamespace, set).only(t, "ConfigMap")
		set["scheduler"] = values{"args": arguments}
		rendered := render(t, releaseNamespace, set)
		after := rendered.only(t, "ConfigMap")
		require.NotEqual(t, before.GetName(), after.GetName())
		shipped, text := at(t, before.Object, "data", "scheduler-config.yaml").(string), at(t, after.Object, "data", "scheduler-config.yaml").(string)
		require.True(t, strings.HasPrefix(text, shipped), text)
		var config, want map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(text), &config))
		require.NoError(t, yaml.Unmarshal([]byte(shipped), &want))
		require.Len(t, want["profiles"], 1)
		profile, args := want["profiles"].([]any)[0].(map[string]any), map[string]any{"strategy": "pack", "stepBudget": 2000000.0, "closeness": []any{}}
		if configured, has := profile["pluginConfig"].([]any); has {
			maps.Copy(args, configured[0].(map[string]any)["args"].(map[string]any))
		}
		profile["pluginConfig"] = []any{map[string]any{"name": "Quartermaster", "args": args}}
		require.Equal(t, want, config)
	}
}

// TestArgumentsReplaceShippedOnes: an argument that the shipped configuration has is replaced by the user's.
func TestArgumentsReplaceShippedOnes(t *testing.T) {
	t.Parallel()
	for _, gangs := range []bool{false, true} {
		rendered := render(t, releaseNamespace, values{
			"mode": "replace-default", "gangScheduling": values{"enabled": gangs}, "scheduler": values{"args": values{"placePodsWithoutDevices": false}},
		})
		var config map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(at(t, rendered.only(t, "ConfigMap").Object, "data", "scheduler-config.yaml").(string)), &config))
		require.Equal(t, []any{map[string]any{"name": "Quartermaster", "args": map[string]any{"placePodsWithoutDevices": false}}},
			config["profiles"].([]any)[0].(map[string]any)["pluginConfig"])
	}
}

// TestSchemaHasAllArguments: the schema has the arguments that the plugin has.
func TestSchemaHasAllArguments(t *testing.T) {
	t.Parallel()
	want := []string{"apiVersion", "kind"}
	files, err := filepath.Glob("../../internal/config/*.go")
	require.NoError(t, err)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(parsed, func(node ast.Node) bool {
			declared, ok := node.(*ast.TypeSpec)
			if !ok || !strings.HasSuffix(declared.Name.Name, "Args") {
				return true
			}
			for _, field := range declared.Type.(*ast.StructType).Fields.List {
				tag, err := strconv.Unquote(field.Tag.Value)
				require.NoError(t, err)
				if name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ","); name != "" {
					want = append(want, name)
				}
			}
			return true
		})
	}
	text, err := os.ReadFile(chartFolder + "/values.schema.json")
	require.NoError(t, err)
	var schema map[string]any
	require.NoError(t, yaml.Unmarshal(text, &schema))
	var got []string
	for name := range at(t, schema, "definitions", "args", "properties").(map[string]any) {
		got = append(got, name)
	}
	require.ElementsMatch(t, want, got)
}
