package kueue

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// kueueAPI is the version of Kueue's API that it stores.
var kueueAPI = schema.GroupVersion{Group: "kueue.x-k8s.io", Version: "v1beta2"}

// apply applies the objects of a YAML text.
func apply(t *testing.T, text []byte) {
	t.Helper()
	cluster.Apply(t, harness.Decode(t, text)...)
}

// patch merges a JSON text into an object of Kueue's API.
func patch(t *testing.T, kind, namespace, name, text string) {
	t.Helper()
	_, err := cluster.Resources(t, kueueAPI.WithKind(kind), namespace).Patch(t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
	require.NoError(t, err, "patch %s %s", kind, name)
}
