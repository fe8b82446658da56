package podgroup

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/commit"
)

// TestLastUserReleases: as long as others use the claim, it stays. Until the last one has
// released it, nobody may use it.
func TestLastUserReleases(t *testing.T) {
	t.Parallel()
	claims, allocation := NewClaims(), &resourceapi.AllocationResult{}
	require.True(t, claims.Join("c", "p"))
	require.True(t, claims.Join("c", "q"))
	require.True(t, claims.InUse("c"))

	wrote := commit.Claim{Phase: commit.Confirmed, OfGroup: true, Takes: commit.Allocation}
	left, _ := claims.Leave("c", "p", wrote, allocation)
	require.Equal(t, commit.Untouched, left.Phase, "q relies on it")
	require.False(t, claims.IsReleasing("c"))

	left, goes := claims.Leave("c", "q", commit.Claim{OfGroup: true}, nil)
	require.NotEqual(t, commit.Untouched, left.Phase)
	require.Equal(t, commit.Allocation, left.Takes)
	require.Same(t, allocation, goes, "what p has written")
	require.True(t, claims.IsReleasing("c"))
	require.False(t, claims.Join("c", "r"))

	claims.Released("c")
	require.True(t, claims.Empty())
	require.True(t, claims.Join("c", "r"))
	claims.Bound("c", "r", wrote, allocation)
	require.False(t, claims.InUse("c"))
	require.True(t, claims.Empty())
}
