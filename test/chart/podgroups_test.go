package chart

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

const podGroupsCRD = "podgroups.scheduling.x-k8s.io"

var podGroups = schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}

// podGroup makes one, and tells whether it is still there.
func (c *controlPlane) podGroup(t *testing.T) (there func() bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := c.dynamic.Resource(podGroups).List(t.Context(), metav1.ListOptions{})
		return err == nil
	}, patience, poll)
	c.create(t, podGroups, "default", "{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: gang}, spec: {minMember: 2}}")
	return func() bool { return c.exists(t, podGroups, "default", "gang") }
}

// TestPodGroupsAreKept: without having said so, nobody loses PodGroups: neither by uninstalling the chart, nor by an upgrade or a
// rollback to values without them. Installed again, the chart takes over the CustomResourceDefinition that it has left. With
// crd: delete, it goes, and all PodGroups with it.
func TestPodGroupsAreKept(t *testing.T) {
	c := onCluster(t)
	before := c.names(t)
	with := func(crd string) values { return values{"podGroups": values{"enabled": true, "crd": crd}} }
	t.Cleanup(func() { // Other tests go on if this one fails.
		err := c.dynamic.Resource(crds).Delete(context.Background(), podGroupsCRD, metav1.DeleteOptions{})
		require.True(t, apierrors.IsNotFound(err) || t.Failed(), "%v", err)
	})
	h := c.helm(t, releaseName, releaseNamespace)
	h.mustInstall(values{"podGroups": values{"enabled": true}})
	there := c.podGroup(t)
	h.mustUpgrade(values{})
	require.True(t, there())
	h.mustUpgrade(with("keep"))
	require.True(t, there())
	h.mustUpgrade(with("none"))
	require.True(t, there())
	h.rollback(2) // Without.
	require.True(t, there())
	h.mustUpgrade(with("keep"))
	h.uninstall()
	require.True(t, there())
	require.ElementsMatch(t, []string{
		"podgroups.scheduling.x-k8s.io default/gang", "customresourcedefinitions.apiextensions.k8s.io /" + podGroupsCRD,
		"apiservices.apiregistration.k8s.io /v1alpha1.scheduling.x-k8s.io",
	}, without(c.names(t), before))

	h.mustInstall(with("keep"))
	require.True(t, there())
	h.mustUpgrade(with("delete"))
	require.True(t, there())
	h.uninstall()
	c.requireLeft(t, before)
}

// TestPodGroupsOfOthers: where scheduler-plugins has installed PodGroups, the chart does not take them over by itself, and says
// so. With crd: none it leaves them alone.
func TestPodGroupsOfOthers(t *testing.T) {
	c := onCluster(t)
	definition, err := yaml.Marshal(folder(t, "pod-groups").only(t, "CustomResourceDefinition").Object)
	require.NoError(t, err)
	remove := c.create(t, crds, "", string(definition))
	defer func() {
		remove()
		c.awaitGone(t, crds, podGroupsCRD)
	}()
	there := c.podGroup(t)
	before := c.names(t)
	of := func() *unstructured.Unstructured {
		found, err := c.dynamic.Resource(crds).Get(t.Context(), podGroupsCRD, metav1.GetOptions{})
		require.NoError(t, err)
		return found
	}
	others := of()

	h := c.helm(t, releaseName, releaseNamespace)
	err = h.install(values{"podGroups": values{"enabled": true}})
	require.ErrorContains(t, err, `CustomResourceDefinition "`+podGroupsCRD+`"`)
	require.ErrorContains(t, err, "cannot be imported into the current release")
	c.requireNothing(t, h, before)

	h.mustInstall(values{"podGroups": values{"enabled": true, "crd": "none"}})
	c.lead(t, releaseNamespace, "quartermaster")
	h.uninstall()
	require.True(t, there())
	require.Equal(t, others.GetResourceVersion(), of().GetResourceVersion())
	c.requireLeft(t, before)
}
