package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// fieldManager is the one of the objects that Apply writes.
const fieldManager = "test"

// Decode returns the objects of a YAML text.
func Decode(t *testing.T, text []byte) (objects []*unstructured.Unstructured) {
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

// Resources returns the endpoint of a kind of others; that of a namespace unless it is empty.
func (c *Cluster) Resources(t *testing.T, kind schema.GroupVersionKind, namespace string) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(c.ControlPlane.AdminConfig())
	require.NoError(t, err)
	// The guess adds an s or es, which is right for all kinds in use.
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	if namespace == "" {
		return client.Resource(plural)
	}
	return client.Resource(plural).Namespace(namespace)
}

// Apply applies objects, as kubectl apply would. It waits until the API server has the kind and reaches its webhooks.
func (c *Cluster) Apply(t *testing.T, objects ...*unstructured.Unstructured) {
	t.Helper()
	for _, object := range objects {
		endpoint := c.Resources(t, object.GroupVersionKind(), object.GetNamespace())
		err := Poll(t.Context(), Patience, func(ctx context.Context) error {
			_, err := endpoint.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
			return err
		})
		require.NoError(t, err, "apply %s %s", object.GetKind(), object.GetName())
	}
}

// ApplyDefinitions applies the CustomResourceDefinitions in a folder after a change, and waits until the API server has their kinds.
func (c *Cluster) ApplyDefinitions(t *testing.T, folder string, change func(*unstructured.Unstructured)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, definition := range Decode(t, text) {
			change(definition)
			c.applyDefinition(t, definition)
		}
	}
}

func (c *Cluster) applyDefinition(t *testing.T, definition *unstructured.Unstructured) {
	t.Helper()
	c.Apply(t, definition)
	require.NoError(t, Poll(t.Context(), Patience, func(ctx context.Context) error {
		found, err := c.Resources(t, definition.GroupVersionKind(), "").Get(ctx, definition.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if status, _, _ := Condition(found, "Established"); status != "True" {
			return fmt.Errorf("definition %s is not established", definition.GetName())
		}
		return nil
	}))
}

// Condition returns a condition of an object.
func Condition(object *unstructured.Unstructured, kind string) (status, reason, message string) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, each := range conditions {
		each := each.(map[string]any)
		if each["type"] == kind {
			status, _ = each["status"].(string)
			reason, _ = each["reason"].(string)
			message, _ = each["message"].(string)
		}
	}
	return status, reason, message
}

// AwaitReady waits until a component of others answers at an address that all is well. It may not end before; see RunBinary.
func (c *Cluster) AwaitReady(t *testing.T, name, url string, ended <-chan struct{}) {
	t.Helper()
	require.NoError(t, Poll(t.Context(), Patience, func(ctx context.Context) error {
		select {
		case <-ended:
			require.FailNow(t, name+" ended; its log is in "+c.Logs)
		default:
		}
		return ready(ctx, url)
	}))
}

// ready returns an error unless an address answers that all is well.
func ready(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if body, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %s", url, answer.Status, body)
	}
	return nil
}
