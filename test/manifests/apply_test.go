package manifests

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

	"github.com/quartermaster-dra/quartermaster/manifests"
)

// installed returns those objects of an overlay that exist in the cluster, as
// they are there.
func installed(t *testing.T, overlay string) []*unstructured.Unstructured {
	t.Helper()
	rendered, err := manifests.Render(overlay)
	require.NoError(t, err)
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(cluster.AdminConfig())
	require.NoError(t, err)
	groups, err := restmapper.GetAPIGroupResources(discoveryClient)
	require.NoError(t, err)
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	client := newDynamicClient(t)

	var found []*unstructured.Unstructured
	for _, object := range rendered {
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		require.NoError(t, err)
		resource := dynamic.ResourceInterface(client.Resource(mapping.Resource))
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			resource = client.Resource(mapping.Resource).Namespace(object.GetNamespace())
		}
		existing, err := resource.Get(t.Context(), object.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		require.NoError(t, err)
		found = append(found, existing)
	}
	return found
}

// kinds returns the sorted kinds of the objects of an overlay in the cluster.
func kinds(t *testing.T, overlay string) []string {
	t.Helper()
	result := []string{}
	for _, object := range installed(t, overlay) {
		result = append(result, object.GetKind())
	}
	slices.Sort(result)
	return result
}

var (
	identityKinds = []string{
		"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "RoleBinding", "ServiceAccount",
	}
	allKinds = map[string][]string{
		manifests.Secondary: {
			"ClusterRole", "ClusterRoleBinding", "ConfigMap", "Deployment", "Role", "RoleBinding", "RoleBinding", "ServiceAccount",
		},
		manifests.ReplaceDefault: {
			"ClusterRole", "ClusterRoleBinding", "ConfigMap", "Deployment", "PodDisruptionBudget", "Role", "RoleBinding", "RoleBinding", "ServiceAccount",
		},
	}
)

// uninstall removes an overlay, through the command that the documentation
// gives, and checks that nothing remains.
func uninstall(t *testing.T, overlay string) {
	t.Helper()
	kubectl(t, "delete", "-k", "manifests/"+overlay, "--ignore-not-found", "--wait")
	require.Empty(t, kinds(t, overlay))
}

func TestApply(t *testing.T) {
	for _, overlay := range manifests.Overlays() {
		t.Run(overlay, func(t *testing.T) {
			config := cluster.AdminConfig()
			require.NoError(t, manifests.Apply(t.Context(), config, overlay, manifests.ApplyOptions{DryRun: true}))
			require.Empty(t, kinds(t, overlay), "a dry run stores nothing")

			require.NoError(t, manifests.Apply(t.Context(), config, overlay, manifests.ApplyOptions{RBACOnly: true}))
			require.Equal(t, identityKinds, kinds(t, overlay))

			require.NoError(t, manifests.Apply(t.Context(), config, overlay, manifests.ApplyOptions{}))
			require.Equal(t, allKinds[overlay], kinds(t, overlay))

			uninstall(t, overlay)
		})
	}
}

func TestApplyAgainChangesNothing(t *testing.T) {
	versions := func() map[string]string {
		result := map[string]string{}
		for _, object := range installed(t, manifests.Secondary) {
			// The Deployment's controller writes its status meanwhile.
			if object.GetKind() != "Deployment" {
				result[object.GetKind()+" "+object.GetName()] = object.GetResourceVersion()
			}
		}
		return result
	}
	require.NoError(t, manifests.Apply(t.Context(), cluster.AdminConfig(), manifests.Secondary, manifests.ApplyOptions{}))
	first := versions()
	require.NotEmpty(t, first)
	require.NoError(t, manifests.Apply(t.Context(), cluster.AdminConfig(), manifests.Secondary, manifests.ApplyOptions{}))
	require.Equal(t, first, versions())
	uninstall(t, manifests.Secondary)
}

// The commands that the documentation gives, in the order in which somebody
// tries Quartermaster and then moves on to replacing the default scheduler.
func TestKubectlApply(t *testing.T) {
	for _, overlay := range manifests.Overlays() {
		kubectl(t, "apply", "-k", "manifests/"+overlay, "--dry-run=server")
		require.Empty(t, kinds(t, overlay), "a dry run stores nothing")
	}
	for _, overlay := range manifests.Overlays() {
		kubectl(t, "apply", "-k", "manifests/"+overlay)
		require.Equal(t, allKinds[overlay], kinds(t, overlay))
		uninstall(t, overlay)
	}
}
