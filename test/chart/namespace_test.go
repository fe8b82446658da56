package chart

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// staysInKubeSystem are objects about something of kube-system's: who may read how API servers authenticate clients, and, in the
// place of kube-scheduler, who may hold its Lease.
var staysInKubeSystem = map[string][]string{
	"secondary": {"RoleBinding kube-system/quartermaster-authentication-reader"},
	"replace-default": {
		"RoleBinding kube-system/quartermaster-authentication-reader",
		"RoleBinding kube-system/quartermaster-leader-election", "Role kube-system/quartermaster-leader-election",
	},
	"none": nil,
}

// configurationName is that of the ConfigMap whose content has the namespace, and whose name has a hash of it.
var configurationName = regexp.MustCompile(`quartermaster-config-[a-z0-9]+`)

// TestAnotherNamespace: in another namespace than kube-system, all that kustomize has in kube-system is there, accounts with their
// rights and the Lease of a second scheduler as well, except for what stays.
func TestAnotherNamespace(t *testing.T) {
	t.Parallel()
	for _, c := range combinations() {
		if c.refused() {
			continue
		}
		set, kustomized := c.values(), c.kustomized(t)
		if c.mode != "none" {
			for name, value := range additions {
				set[value] = values{"enabled": true}
				for key, object := range folder(t, name) {
					kustomized[key] = object
				}
			}
			set["podGroups"], set["deviceBookings"] = values{"enabled": true, "crd": "delete"}, values{"enabled": true, "crd": "delete"}
		}
		want := objects{}
		for name, object := range kustomized {
			moved := inNamespace(t, object, "devices", c.mode == "replace-default")
			for _, stays := range staysInKubeSystem[c.mode] {
				if name == stays {
					moved.SetNamespace("kube-system")
				}
			}
			want[key(moved)] = moved
		}
		got := objects{}
		for _, object := range render(t, "devices", set) {
			object = withoutHash(t, object)
			require.Contains(t, want, key(object), "%s", c)
			removeChartLabels(t, object, want[key(object)])
			got[key(object)] = object
		}
		require.Equal(t, want, got, "%s", c)
	}
}

// TestNamespaceThatIsANumber: the name of a namespace can be one, and is text nevertheless.
func TestNamespaceThatIsANumber(t *testing.T) {
	t.Parallel()
	rendered, err := template(t, "123", values{"monitoring": values{"enabled": true}})
	require.NoError(t, err)
	got := decode(t, rendered.Manifest)
	require.Contains(t, got, "ConfigMap 123/quartermaster-dashboard")
	require.Contains(t, decode(t, rendered.Hooks[0].Manifest), "Lease 123/quartermaster")
	for _, object := range got {
		if text, found, _ := unstructured.NestedString(object.Object, "data", "scheduler-config.yaml"); found {
			require.Contains(t, text, `resourceNamespace: "123"`)
		}
	}
}

// TestGuardsNamespace: the record of a release is not where the release deletes the namespace.
func TestGuardsNamespace(t *testing.T) {
	t.Parallel()
	_, err := template(t, "quartermaster-guard", values{"guard": values{"enabled": true}})
	require.ErrorContains(t, err, "install it into another one")
}

// inNamespace is an object of kube-system as it is in another namespace, wherever it says kube-system. In the place of kube-scheduler,
// the configuration keeps the namespace of the Lease.
func inNamespace(t *testing.T, object *unstructured.Unstructured, namespace string, keepsLease bool) *unstructured.Unstructured {
	t.Helper()
	const lease, kept = "resourceNamespace: kube-system", "resourceNamespace: KEPT"
	return changed(t, withoutHash(t, object), func(text string) string {
		if keepsLease {
			text = strings.ReplaceAll(text, lease, kept)
		}
		return strings.ReplaceAll(strings.ReplaceAll(text, "kube-system", namespace), kept, lease)
	})
}

// withoutHash is an object without the hash of the configuration: that has the namespace in it.
func withoutHash(t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	return changed(t, object, func(text string) string { return configurationName.ReplaceAllString(text, "quartermaster-config-hash") })
}

// changed is an object whose JSON was changed.
func changed(t *testing.T, object *unstructured.Unstructured, change func(string) string) *unstructured.Unstructured {
	t.Helper()
	encoded, err := object.MarshalJSON()
	require.NoError(t, err)
	result := &unstructured.Unstructured{}
	require.NoError(t, result.UnmarshalJSON([]byte(change(string(encoded)))))
	return result
}
