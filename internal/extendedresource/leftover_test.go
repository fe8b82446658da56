package extendedresource

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
)

// TestNothingLeftWithoutTheFeature: without it nothing is made, and claims are not indexed.
func TestNothingLeftWithoutTheFeature(t *testing.T) {
	t.Parallel()
	pod := builder.Pod("p")
	claims := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	require.NoError(t, claims.Add(NewClaim(pod)))
	left, err := LeftOver(pod, claims, func(string, string) *resourceapi.ResourceClaim { return nil })
	require.NoError(t, err)
	require.Empty(t, left)
}

