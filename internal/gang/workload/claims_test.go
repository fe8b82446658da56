package workload

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/commit/protocol"
)

// TestLastUserReleases: a claim stays while others use it. Until its last user has released it, no pod may use it.
func TestLastUserReleases(t *testing.T) {
	t.Parallel()
	claims, allocation := NewClaims(), &resourceapi.AllocationResult{}
	require.True(t, claims.Join("c", "p"))
	require.True(t, claims.Join("c", "q"))
	require.True(t, claims.InUse("c"))

	wrote := protocol.Claim{Phase: protocol.Confirmed, OfGroup: true, Takes: protocol.Allocation}
	left, _ := claims.Leave("c", "p", wrote, allocation)
	require.Equal(t, protocol.Untouched, left.Phase, "q relies on it")
	require.False(t, claims.IsReleasing("c"))

	left, goes := claims.Leave("c", "q", protocol.Claim{OfGroup: true}, nil)
	require.NotEqual(t, protocol.Untouched, left.Phase)
	require.Equal(t, protocol.Allocation, left.Takes)
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

// TestBeginRelease: only an unused claim can be released, and no pod may use it meanwhile.
func TestBeginRelease(t *testing.T) {
	t.Parallel()
	g := NewClaims()
	require.True(t, g.Join("claim", "pod"))
	require.False(t, g.BeginRelease("claim"), "it is in use")
	require.True(t, g.BeginRelease("other"))
	require.False(t, g.BeginRelease("other"), "it is being released")
	require.True(t, g.IsReleasing("other"))
	require.False(t, g.Join("other", "pod"))
	g.Released("other")
	require.True(t, g.Join("other", "pod"))
}
