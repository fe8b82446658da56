package manifests_test

import (
	"io/fs"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/manifests"
)

// forEachOverlay runs a test on the rendered objects of every overlay.
func forEachOverlay(t *testing.T, test func(t *testing.T, overlay string, objects []*unstructured.Unstructured)) {
	t.Helper()
	for _, overlay := range manifests.Overlays() {
		t.Run(overlay, func(t *testing.T) {
			t.Parallel()
			objects, err := manifests.Render(overlay)
			require.NoError(t, err)
			test(t, overlay, objects)
		})
	}
}

// find returns the only object of a kind, converted to its API type.
func find[T any](t *testing.T, objects []*unstructured.Unstructured, kind string) *T {
	t.Helper()
	var found []*unstructured.Unstructured
	for _, object := range objects {
		if object.GetKind() == kind {
			found = append(found, object)
		}
	}
	require.Len(t, found, 1, "objects of kind %s", kind)
	typed := new(T)
	const strict = true
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(found[0].Object, typed, strict))
	return typed
}

func TestRenderedObjects(t *testing.T) {
	t.Parallel()
	shared := []string{
		"ServiceAccount kube-system/quartermaster",
		"ClusterRole /quartermaster",
		"ClusterRoleBinding /quartermaster",
		"Role kube-system/quartermaster-leader-election",
		"RoleBinding kube-system/quartermaster-leader-election",
		"RoleBinding kube-system/quartermaster-authentication-reader",
		"ConfigMap kube-system/quartermaster-config-*",
		"Deployment kube-system/quartermaster",
	}
	want := map[string][]string{
		manifests.Secondary:      shared,
		manifests.ReplaceDefault: append([]string{"PodDisruptionBudget kube-system/quartermaster"}, shared...),
	}
	forEachOverlay(t, func(t *testing.T, overlay string, objects []*unstructured.Unstructured) {
		var got []string
		for _, object := range objects {
			name := object.GetName()
			if object.GetKind() == "ConfigMap" {
				require.Regexp(t, `^quartermaster-config-[a-z0-9]{10}$`, name, "the name must change with the content")
				name = "quartermaster-config-*"
			}
			got = append(got, object.GetKind()+" "+object.GetNamespace()+"/"+name)
		}
		inAnyOrder := cmpopts.SortSlices(func(a, b string) bool { return a < b })
		require.Empty(t, cmp.Diff(want[overlay], got, inAnyOrder))
	})
}

func TestEveryFolderWithAKustomizationIsAnOverlay(t *testing.T) {
	t.Parallel()
	kustomizations, err := fs.Glob(os.DirFS("."), "*/kustomization.yaml")
	require.NoError(t, err)
	want := []string{"base/kustomization.yaml", manifests.AlphaAPI + "/kustomization.yaml", manifests.Guard + "/kustomization.yaml", manifests.GuardCertManager + "/kustomization.yaml", manifests.GuardRestricted + "/kustomization.yaml", manifests.GuardInScheduler + "/kustomization.yaml", manifests.PodGroups + "/kustomization.yaml", manifests.DeviceBookings + "/kustomization.yaml", manifests.GangScheduling + "/kustomization.yaml", manifests.Monitoring + "/kustomization.yaml", manifests.FinalizerAtCreation + "/kustomization.yaml", "kubectl-devices/kustomization.yaml"}
	for _, overlay := range manifests.Overlays() {
		want = append(want, overlay+"/kustomization.yaml")
	}
	require.ElementsMatch(t, want, kustomizations)
}

func TestUnknownOverlay(t *testing.T) {
	t.Parallel()
	for _, overlay := range []string{"", "base", "../secondary", "tertiary"} {
		_, err := manifests.Render(overlay)
		require.ErrorContains(t, err, "use one of secondary, replace-default", "overlay %q", overlay)
		_, err = manifests.SchedulerConfig(overlay)
		require.ErrorContains(t, err, "use one of secondary, replace-default", "overlay %q", overlay)
	}
}
