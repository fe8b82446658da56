package chart

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// everything lists the objects of all kinds that the server has, with their content. Left out are events, which expire by
// themselves, componentstatuses, which are nowhere stored, and the leases of nodes, which kubelets (here KWOK) make when
// they get to it.
func (c *controlPlane) everything(t *testing.T) map[string]unstructured.Unstructured {
	t.Helper()
	lists, err := c.client.Discovery().ServerPreferredResources()
	require.NoError(t, err)
	all := map[string]unstructured.Unstructured{}
	kinds := 0
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		require.NoError(t, err)
		for _, resource := range list.APIResources {
			if !slices.Contains(resource.Verbs, "list") || slices.Contains([]string{"events", "componentstatuses"}, resource.Name) {
				continue
			}
			kinds++
			found, err := c.dynamic.Resource(version.WithResource(resource.Name)).List(t.Context(), metav1.ListOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue // A kind that was deleted meanwhile.
			}
			require.NoError(t, err)
			for _, object := range found.Items {
				if resource.Name == "leases" && object.GetNamespace() == v1.NamespaceNodeLease {
					continue
				}
				all[resource.Name+"."+version.Group+" "+object.GetNamespace()+"/"+object.GetName()] = object
			}
		}
	}
	require.Greater(t, kinds, 50)
	return all
}

// names returns what there is, without content.
func (c *controlPlane) names(t *testing.T) []string {
	t.Helper()
	return slices.Sorted(maps.Keys(c.everything(t)))
}

// requireLeft waits until there is again what there was, and nothing else.
func (c *controlPlane) requireLeft(t *testing.T, before []string) {
	t.Helper()
	var left, missing []string
	// Namespaces take a moment to end, and so does what others own.
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(poll) {
		now := c.names(t)
		if left, missing = without(now, before), without(before, now); len(left)+len(missing) == 0 {
			return
		}
	}
	require.Fail(t, "The server does not have what it had", "left: %q, missing: %q", left, missing)
}

// without returns what is in the first list and not in the second one.
func without(list, other []string) (result []string) {
	for _, name := range list {
		if !slices.Contains(other, name) {
			result = append(result, name)
		}
	}
	return result
}

// content is what was asked for in objects that the chart installs, without what servers, controllers and Helm's own records add.
func (c *controlPlane) content(t *testing.T) map[string]any {
	t.Helper()
	result := map[string]any{}
	for name, object := range c.everything(t) {
		if object.GetLabels()["app.kubernetes.io/managed-by"] != "Helm" {
			continue
		}
		fields := map[string]any{"labels": object.GetLabels(), "annotations": withoutRevision(object.GetAnnotations())}
		for field, value := range object.Object {
			if !slices.Contains([]string{"metadata", "status", "apiVersion", "kind"}, field) {
				fields[field] = value
			}
		}
		// Which address a Service has is nobody's wish.
		unstructured.RemoveNestedField(fields, "spec", "clusterIP")
		unstructured.RemoveNestedField(fields, "spec", "clusterIPs")
		result[name] = fields
	}
	return result
}

func withoutRevision(annotations map[string]string) map[string]string {
	result := maps.Clone(annotations)
	delete(result, "deployment.kubernetes.io/revision")
	return result
}

// namespace makes one, with what controllers put into each.
func (c *controlPlane) namespace(t *testing.T, name string) (remove func()) {
	t.Helper()
	removeObject := c.create(t, namespaces, "", "{apiVersion: v1, kind: Namespace, metadata: {name: \""+name+"\"}}")
	require.Eventually(t, func() bool {
		_, noAccount := c.client.CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{})
		_, noAuthority := c.client.CoreV1().ConfigMaps(name).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		return noAccount == nil && noAuthority == nil
	}, patience, poll)
	return func() {
		removeObject()
		c.awaitGone(t, namespaces, name)
	}
}

// awaitPods waits until the controllers have made as many pods of ours as are wanted.
func (c *controlPlane) awaitPods(t *testing.T, want int) {
	t.Helper()
	require.EventuallyWithT(t, func(try *assert.CollectT) {
		pods, err := c.client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=quartermaster"})
		require.NoError(try, err)
		require.Len(try, pods.Items, want)
	}, patience, poll)
}

// exists says whether an object is there.
func (c *controlPlane) exists(t require.TestingT, resource schema.GroupVersionResource, namespace, name string) bool {
	_, err := c.dynamic.Resource(resource).Namespace(namespace).Get(context.Background(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false
	}
	require.NoError(t, err)
	return true
}

// awaitGone waits until an object of the cluster is deleted.
func (c *controlPlane) awaitGone(t *testing.T, resource schema.GroupVersionResource, name string) {
	t.Helper()
	require.EventuallyWithT(t, func(try *assert.CollectT) { require.False(try, c.exists(try, resource, "", name)) }, patience, poll)
}

// keepEnding has a namespace end only after the returned function was called: a test does not depend on how long that takes.
func (c *controlPlane) keepEnding(t *testing.T, namespace string) (end func()) {
	t.Helper()
	set := func(finalizers string) {
		t.Helper()
		patch := []byte(`{"metadata":{"finalizers":` + finalizers + `}}`)
		_, err := c.client.CoreV1().Namespaces().Patch(context.WithoutCancel(t.Context()), namespace, types.MergePatchType, patch, metav1.PatchOptions{})
		require.True(t, err == nil || apierrors.IsNotFound(err), "%v", err)
	}
	set(`["example.com/test"]`)
	t.Cleanup(func() { set("null") }) // If the test fails.
	return func() { set("null") }
}

// create makes objects, and returns how to delete them again.
func (c *controlPlane) create(t *testing.T, resource schema.GroupVersionResource, namespace, text string) (remove func()) {
	t.Helper()
	var removals []func()
	for _, object := range decode(t, text) {
		into := c.dynamic.Resource(resource).Namespace(namespace)
		_, err := into.Create(t.Context(), object, metav1.CreateOptions{})
		require.NoError(t, err)
		removals = append(removals, func() {
			err := into.Delete(context.WithoutCancel(t.Context()), object.GetName(), metav1.DeleteOptions{})
			require.True(t, err == nil || apierrors.IsNotFound(err), "%v", err)
		})
	}
	return func() {
		for _, remove := range removals {
			remove()
		}
	}
}

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// operatorKinds defines kinds of the Prometheus operator and of cert-manager, as far as Helm and the API server need to know
// them: nobody acts on them here.
func (c *controlPlane) operatorKinds(t *testing.T) (remove func()) {
	t.Helper()
	var removals []func()
	before := c.names(t)
	for _, kind := range []struct{ group, version, kind string }{
		{"monitoring.coreos.com", "v1", "PodMonitor"}, {"monitoring.coreos.com", "v1", "PrometheusRule"},
		{"cert-manager.io", "v1", "Certificate"}, {"cert-manager.io", "v1", "Issuer"},
	} {
		plural := strings.ToLower(kind.kind) + "s"
		removals = append(removals, c.create(t, crds, "", `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: `+plural+"."+kind.group+`}
spec:
  group: `+kind.group+`
  scope: Namespaced
  names: {kind: `+kind.kind+`, plural: `+plural+`, singular: `+strings.ToLower(kind.kind)+`, listKind: `+kind.kind+`List}
  versions:
    - name: `+kind.version+`
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`))
		resource := schema.GroupVersionResource{Group: kind.group, Version: kind.version, Resource: plural}
		require.Eventually(t, func() bool {
			_, err := c.dynamic.Resource(resource).List(t.Context(), metav1.ListOptions{})
			return err == nil
		}, patience, poll)
	}
	return func() {
		for _, remove := range removals {
			remove()
		}
		c.requireLeft(t, before)
	}
}
