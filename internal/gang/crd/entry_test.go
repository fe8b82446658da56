package crd

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
)

// TestEndlessMinResources: no API server parses the quantities of a custom resource. A quantity that takes too long to
// parse makes only its own PodGroup unreadable.
func TestEndlessMinResources(t *testing.T) {
	for _, value := range []string{"1e-999999999", "1e-99999999", " 1e-999999999 ", "1e999999999"} {
		stored, err := toEntry(&unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "g", "namespace": "ns"},
			"spec":     map[string]any{"minResources": map[string]any{"cpu": value}},
		}})
		require.NoError(t, err)
		require.Nil(t, stored.(*entry).group)
		require.Equal(t, "g", stored.(*entry).GetName())
		require.ErrorIs(t, stored.(*entry).err, quantity.ErrEndless)
	}
	stored, err := toEntry(&unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "g"}, "spec": map[string]any{"minResources": map[string]any{"cpu": "1e3", "memory": int64(5)}},
	}})
	require.NoError(t, err)
	require.EqualValues(t, 1000, stored.(*entry).group.Spec.MinResources.Cpu().Value())
}
