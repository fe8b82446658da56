package allocationlog

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// TestAdminAccess: a claim that uses no device is allocated all the same, and conflicts with no
// other.
func TestAdminAccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := func() *resourceapi.ResourceClaim {
		claim := foreign("admin", "gpu-0")
		claim.Status.Allocation.Devices.Results[0].AdminAccess = ptr.To(true)
		return claim
	}
	w.write(10, ours("x", "gpu-0"))
	w.write(20, admin())
	w.write(30, admin())
	require.True(t, w.Allocated(admin().UID))
	require.Nil(t, w.lost(admin().UID))
	require.Empty(t, w.Conflicts(ours("x").UID))
	require.False(t, w.ForeignWithin(0), "takes no device from anybody")
	w.write(40, free("admin"))
	require.False(t, w.Allocated(admin().UID))
}
