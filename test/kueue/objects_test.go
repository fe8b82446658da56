package kueue

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// fieldManager is the one of the objects that the tests apply.
const fieldManager = "test"

// kueueAPI is the version of Kueue's API that it stores.
var kueueAPI = schema.GroupVersion{Group: "kueue.x-k8s.io", Version: "v1beta2"}

// decode returns the objects of a YAML text.
func decode(t *testing.T, text []byte) (objects []*unstructured.Unstructured) {
	t.Helper()
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text))
	for {
		object := &unstructured.Unstructured{}
		err := documents.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		require.NoError(t, err)
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// resources returns the endpoint of a kind; that of a namespace unless it is empty.
func resources(t *testing.T, kind schema.GroupVersionKind, namespace string) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(cluster.ControlPlane.AdminConfig())
	require.NoError(t, err)
	// The guess adds an s or es, which is right for all kinds in use.
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	if namespace == "" {
		return client.Resource(plural)
	}
	return client.Resource(plural).Namespace(namespace)
}

// apply does what kubectl apply does. It waits until the API server has the kind and reaches Kueue's webhooks.
func apply(t *testing.T, objects ...*unstructured.Unstructured) {
	t.Helper()
	for _, object := range objects {
		endpoint := resources(t, object.GroupVersionKind(), object.GetNamespace())
		err := harness.Poll(t.Context(), harness.Patience, func(ctx context.Context) error {
			_, err := endpoint.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
			return err
		})
		require.NoError(t, err, "apply %s %s", object.GetKind(), object.GetName())
	}
}

// patch merges a JSON text into an object of Kueue's API.
func patch(t *testing.T, kind, namespace, name, text string) {
	t.Helper()
	_, err := resources(t, kueueAPI.WithKind(kind), namespace).Patch(t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
	require.NoError(t, err, "patch %s %s", kind, name)
}
