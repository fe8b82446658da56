package chart

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// certManagerRestricted is the guard with both changes, for which there is no kustomization.
const certManagerRestricted = "guard-cert-manager and guard-restricted"

// guards are the ways to have a guard: by the kustomization, the values.
var guards = map[string]values{
	"":                    {},
	"guard":               {"enabled": true},
	"guard-cert-manager":  {"enabled": true, "certificates": "cert-manager"},
	"guard-restricted":    {"enabled": true, "onlyFrom": []any{"192.0.2.1/32"}, "clientCertificates": true},
	certManagerRestricted: {"enabled": true, "onlyFrom": []any{"192.0.2.1/32"}, "clientCertificates": true, "certificates": "cert-manager"},
	"guard-in-scheduler":  {"enabled": true, "inScheduler": true},
}

// additions are kustomizations that are applied beside others: by their folder, the values.
var additions = map[string]string{
	"pod-groups": "podGroups", "device-bookings": "deviceBookings", "monitoring": "monitoring", "finalizer-at-creation": "finalizerAtCreation", "alpha-api": "alphaApi",
	"kubectl-devices": "kubectlDevices",
}

// combination is a set of values for which there is something that kustomize renders.
type combination struct {
	mode  string
	gangs bool
	guard string
}

// combinations are all that the chart does not refuse.
func combinations() (all []combination) {
	for guard := range guards {
		all = append(all, combination{mode: "none", guard: guard})
		for _, gangs := range []bool{false, true} {
			all = append(all, combination{"secondary", gangs, guard}, combination{"replace-default", gangs, guard})
		}
	}
	return all
}

// refused says that a combination makes no sense, and has no kustomization either.
func (c combination) refused() bool { return c.guard == "guard-in-scheduler" && c.mode != "secondary" }

func (c combination) String() string {
	return fmt.Sprintf("%s, gangs %t, guard %q", c.mode, c.gangs, c.guard)
}

func (c combination) values() values {
	return values{"mode": c.mode, "guard": maps.Clone(guards[c.guard]), "gangScheduling": values{"enabled": c.gangs}}
}

// kustomized is what kustomize makes of it.
func (c combination) kustomized(t *testing.T) objects {
	t.Helper()
	var resources []string
	text, files := "", map[string]string{}
	switch {
	case c.guard == "guard-in-scheduler": // It has the scheduler.
	case c.mode == "secondary" && c.gangs:
		resources = append(resources, "../gang-scheduling")
	case c.mode != "none":
		resources = append(resources, "../"+c.mode)
	}
	if c.gangs && (c.mode == "replace-default" || c.guard == "guard-in-scheduler") {
		text += replaceConfig
		files["scheduler-config.yaml"] = gangConfig(t, c.mode)
	}
	switch c.guard {
	case "":
	case certManagerRestricted:
		resources = append(resources, "../guard-cert-manager")
		addresses, err := os.ReadFile(manifestsFolder + "/guard-restricted/api-servers.yaml")
		require.NoError(t, err)
		text += restrictToo
		files["api-servers.yaml"] = string(addresses)
	default:
		resources = append(resources, "../"+c.guard)
	}
	if len(resources) == 0 {
		return objects{}
	}
	return kustomize(t, "resources: ["+strings.Join(resources, ", ")+"]\n"+text, files)
}

// TestRendersWhatKustomizeRenders: for each combination of values, the chart renders the objects that kustomize renders of
// manifests, in the namespace that those have. Nothing differs but the labels that charts have, and one annotation, by which Helm leaves
// the CustomResourceDefinitions of PodGroups and DeviceBookings when it uninstalls the chart.
func TestRendersWhatKustomizeRenders(t *testing.T) {
	t.Parallel()
	added := map[string]objects{}
	for name := range additions {
		added[name] = folder(t, name)
	}
	all := 0
	for _, c := range combinations() {
		if !c.refused() {
			all++
		}
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			if c.refused() {
				_, err := template(t, releaseNamespace, c.values())
				require.ErrorContains(t, err, "guard.inScheduler is true and mode is "+c.mode)
				return
			}
			c.compareWith(t, added)
		})
	}
	require.Equal(t, 12+10+5, all)
}

// compareWith compares what is rendered of a combination with each choice of additions.
func (c combination) compareWith(t *testing.T, added map[string]objects) {
	base := c.kustomized(t)
	for _, chosen := range c.additions() {
		set, want := c.values(), maps.Clone(base)
		for index, name := range []string{"finalizer-at-creation", "kubectl-devices", "pod-groups", "device-bookings", "monitoring", "alpha-api"} {
			if chosen&(1<<index) != 0 {
				set[additions[name]] = values{"enabled": true}
				maps.Copy(want, added[name])
			}
		}
		if c.mode == "none" && chosen >= 1<<2 {
			continue // The others are for a scheduler of the chart: see TestRefusedValues.
		}
		got := render(t, releaseNamespace, set)
		for name, object := range got {
			if object.GetKind() == "CustomResourceDefinition" {
				require.Equal(t, "keep", object.GetAnnotations()["helm.sh/resource-policy"])
				unstructured.RemoveNestedField(object.Object, "metadata", "annotations", "helm.sh/resource-policy")
				if len(object.GetAnnotations()) == 0 {
					object.SetAnnotations(nil)
				}
			}
			require.Contains(t, want, name, "%v", set)
			removeChartLabels(t, object, want[name])
			require.Equal(t, want[name], object, "%v: %s", set, name)
		}
		require.Len(t, got, len(want), "%v", set)
	}
}

// additions are the choices of additions to render a combination with, a bit for each: all choices for a few combinations, and
// for the others those by which each two additions are rendered with and without one another: none, all, one, and all but one.
func (c combination) additions() (choices []int) {
	everything := 1<<len(additions) - 1
	if c.gangs && c.guard == "guard" || c.guard == "guard-in-scheduler" || c.mode == "none" {
		for chosen := range everything + 1 {
			choices = append(choices, chosen)
		}
		return choices
	}
	choices = append(choices, 0, everything)
	for index := range len(additions) {
		choices = append(choices, 1<<index, everything&^(1<<index))
	}
	return choices
}

// removeChartLabels takes away the labels that only the chart has, which have to be right.
func removeChartLabels(t *testing.T, object, want *unstructured.Unstructured) {
	t.Helper()
	labels := object.GetLabels()
	for name, value := range map[string]string{
		"app.kubernetes.io/instance": releaseName, "app.kubernetes.io/version": "dev", "app.kubernetes.io/part-of": "quartermaster",
		"app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": "quartermaster-0.0.0-dev",
	} {
		require.Equal(t, value, labels[name], "%s of %s", name, key(object))
		delete(labels, name)
	}
	if _, shipped := want.GetLabels()["app.kubernetes.io/name"]; !shipped {
		require.Equal(t, "quartermaster", labels["app.kubernetes.io/name"], key(object))
		delete(labels, "app.kubernetes.io/name")
	}
	if len(labels) == 0 {
		labels = nil
	}
	object.SetLabels(labels)
}

// TestCombinationsAreAllOverlays: each kustomization of manifests is one of the combinations that are compared.
func TestCombinationsAreAllOverlays(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(manifestsFolder)
	require.NoError(t, err)
	known := map[string]bool{"base": true, "secondary": true, "replace-default": true, "gang-scheduling": true}
	for name := range guards {
		known[name] = true
	}
	for name := range additions {
		known[name] = true
	}
	for _, entry := range entries {
		if entry.IsDir() {
			require.Contains(t, known, entry.Name(), "a folder of manifests without a value in the chart")
		}
	}
}
