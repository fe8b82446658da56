package driver

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

// endpoint finds where the API server has an object.
func endpoint(t *testing.T, object *unstructured.Unstructured) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(cluster.ControlPlane.AdminConfig())
	require.NoError(t, err)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(cluster.Client.Discovery()))
	kind := object.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	require.NoError(t, err, "find the resource of %s %s", kind, object.GetName())
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return client.Resource(mapping.Resource).Namespace(object.GetNamespace())
	}
	return client.Resource(mapping.Resource)
}

// apply does what kubectl apply does with objects.
func (i *installation) apply(objects ...*unstructured.Unstructured) {
	i.t.Helper()
	for _, object := range objects {
		_, err := endpoint(i.t, object).Apply(i.t.Context(), object.GetName(), object, metav1.ApplyOptions{FieldManager: "test", Force: true})
		require.NoError(i.t, err, "apply %s %s", object.GetKind(), object.GetName())
		if object.GetKind() == "Namespace" {
			require.NoError(i.t, scenario.DefaultAccounts(cluster.Client)(i.t.Context(), []string{object.GetName()}))
		}
	}
}

// delete deletes objects, the last first, and waits until they are gone. Namespaces stay: others may use them later.
func (i *installation) delete(objects ...*unstructured.Unstructured) {
	i.t.Helper()
	ctx := context.Background() // That of the test may be over.
	background := metav1.DeletePropagationBackground
	for _, object := range slices.Backward(objects) {
		if object.GetKind() == "Namespace" {
			continue
		}
		err := endpoint(i.t, object).Delete(ctx, object.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
		if !apierrors.IsNotFound(err) { // A pod may have been evicted.
			require.NoError(i.t, err, "delete %s %s", object.GetKind(), object.GetName())
		}
	}
}

// emptied is nil if a namespace has neither pods nor claims.
func emptied(ctx context.Context, namespace string) error {
	pods, err := cluster.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	claims, err := cluster.Client.ResourceV1().ResourceClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(pods.Items)+len(claims.Items) > 0 {
		return fmt.Errorf("namespace %s still has %d pods and %d claims", namespace, len(pods.Items), len(claims.Items))
	}
	return nil
}

func toObject(t *testing.T, object runtime.Object, kind schema.GroupVersionKind) *unstructured.Unstructured {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	require.NoError(t, err)
	converted := &unstructured.Unstructured{Object: fields}
	converted.SetGroupVersionKind(kind)
	return converted
}
