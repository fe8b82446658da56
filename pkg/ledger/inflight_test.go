package ledger_test

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

func TestSharedAllocationEndsWithItsLastUser(t *testing.T) {
	t.Parallel()
	l := ledger.New()
	x := b.Claim("x").Allocated("a", "gpu-0")
	refresh(l, "x", versioned(b.Claim("x").Obj(), 1))
	for _, pod := range []types.UID{"pod-1", "pod-2", "pod-3", "pod-2"} {
		require.NoError(t, l.AddInFlight(ledger.RefTo(x), pod, x.Status.Allocation))
	}
	require.Equal(t, []types.UID{"pod-1", "pod-2", "pod-3"}, l.UseOf("uid-x").InFlight, "each pod once")
	require.Equal(t, 1, l.InFlightCount(), "one allocation")

	l.RemoveInFlight("uid-x", "pod-2")
	l.RemoveInFlight("uid-x", "pod-2")
	l.RemoveInFlight("uid-x", "stranger")
	require.Same(t, x.Status.Allocation, l.InFlight("uid-x"), "two users are left")
	l.Observe(versioned(x.DeepCopy(), 2))
	l.RemoveInFlight("uid-x", "pod-1")
	l.Observe(versioned(b.Claim("x").Obj(), 3))
	require.Equal(t, []string{"gpu-0: x"}, holders(l, "a"), "the last user is going to write it again")
	l.RemoveInFlight("uid-x", "pod-3")
	require.Empty(t, holders(l, "a"))
	require.Empty(t, l.UseOf("uid-x").InFlight)
}

// TestBothAllocationsCount: another scheduler allocates a claim while an attempt has an allocation of it in flight, and deallocates it
// again. The attempt may then write its allocation: nobody else must get these devices in between.
func TestBothAllocationsCount(t *testing.T) {
	t.Parallel()
	l := ledger.New()
	planned, other := b.Claim("x").Allocated("a", "gpu-0", "gpu-1"), b.Claim("x").Allocated("a", "gpu-1", "gpu-2")
	refresh(l, "x", versioned(b.Claim("x").Obj(), 1))
	require.NoError(t, l.AddInFlight(ledger.RefTo(planned), "pod", planned.Status.Allocation))
	refresh(l, "x", versioned(other.DeepCopy(), 2))
	require.Equal(t, []string{"gpu-0: x", "gpu-1: x", "gpu-2: x"}, holders(l, "a"), "each device once")
	y := b.Claim("y").Allocated("a", "gpu-0")
	require.Error(t, l.AddInFlight(ledger.RefTo(y), "other", y.Status.Allocation))
	refresh(l, "x", versioned(b.Claim("x").Obj(), 3))
	require.Equal(t, []string{"gpu-0: x", "gpu-1: x"}, holders(l, "a"))
	refresh(l, "x", versioned(other.DeepCopy(), 4))
	l.RemoveInFlight("uid-x", "pod")
	require.Equal(t, []string{"gpu-1: x", "gpu-2: x"}, holders(l, "a"), "the attempt has ended")
}

func TestAnotherAllocationIsRefusedWhileItIsShared(t *testing.T) {
	t.Parallel()
	l := ledger.New()
	x, other := b.Claim("x").Allocated("a", "gpu-0"), b.Claim("x").Allocated("a", "gpu-1")
	require.NoError(t, l.AddInFlight(ledger.RefTo(x), "pod-1", x.Status.Allocation))
	require.EqualError(t, l.AddInFlight(ledger.RefTo(x), "pod-2", other.Status.Allocation),
		"claim default/x was to be allocated for a pod but another allocation of it is in flight for 1 other pods; trying again when that has ended")
	require.Equal(t, []string{"gpu-0: x"}, holders(l, "a"))
	require.NoError(t, l.AddInFlight(ledger.RefTo(x), "pod-1", other.Status.Allocation), "nobody else relies on it")
	require.Equal(t, []string{"gpu-1: x"}, holders(l, "a"))
}

// The guard is asked about what the server is going to store of a pod's plan: with a timestamp,
// defaults, and parameters written in another way.
func TestSameUseIsNoOtherAllocation(t *testing.T) {
	t.Parallel()
	l := ledger.New()
	x := b.Claim("x").Allocated("a", "gpu-0")
	x.Status.Allocation.Devices.Results[0].ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("1Gi")}
	require.NoError(t, l.AddInFlight(ledger.RefTo(x), "pod", x.Status.Allocation))

	stored := x.DeepCopy().Status.Allocation
	stored.AllocationTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	stored.Devices.Results[0].Tolerations = []resourceapi.DeviceToleration{{Key: "k", Operator: resourceapi.DeviceTolerationOpEqual}}
	stored.Devices.Results[0].ConsumedCapacity["memory"] = resource.MustParse("1024Mi")
	require.NoError(t, l.AddInFlight(ledger.RefTo(x), "guard", stored))
	require.Same(t, x.Status.Allocation, l.InFlight("uid-x"))

	more := stored.DeepCopy()
	more.Devices.Results[0].ConsumedCapacity["memory"] = resource.MustParse("2Gi")
	require.ErrorContains(t, l.AddInFlight(ledger.RefTo(x), "guard", more), "another allocation of it is in flight")
}

// TestInFlightAgainstModel has pods come and go in any order: an allocation is in flight
// exactly while it has users.
func TestInFlightAgainstModel(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewSource(5))
	for range 200 {
		l := ledger.New()
		claims := []*resourceapi.ResourceClaim{b.Claim("x").Allocated("a", "gpu-0"), b.Claim("y").Allocated("a", "gpu-1")}
		users := map[types.UID]map[types.UID]bool{"uid-x": {}, "uid-y": {}}
		for range 40 {
			claim, pod := claims[rng.Intn(2)], types.UID(fmt.Sprintf("pod-%d", rng.Intn(4)))
			if rng.Intn(2) == 0 {
				require.NoError(t, l.AddInFlight(ledger.RefTo(claim), pod, claim.Status.Allocation))
				users[claim.UID][pod] = true
			} else {
				l.RemoveInFlight(claim.UID, pod)
				delete(users[claim.UID], pod)
			}
			for _, claim := range claims {
				require.ElementsMatch(t, slices.Collect(maps.Keys(users[claim.UID])), l.UseOf(claim.UID).InFlight)
				require.Equal(t, len(users[claim.UID]) > 0, l.InFlight(claim.UID) != nil)
			}
		}
	}
}

// TestBothAllocationsWithAdminAccess: a device that the stored allocation has by admin access only is in use by the one in flight.
func TestBothAllocationsWithAdminAccess(t *testing.T) {
	t.Parallel()
	l := ledger.New()
	planned, other := b.Claim("x").Allocated("a", "gpu-0"), b.Claim("x").Allocated("a", "gpu-0", "gpu-1")
	admin := true
	other.Status.Allocation.Devices.Results[0].AdminAccess = &admin
	refresh(l, "x", versioned(b.Claim("x").Obj(), 1))
	require.NoError(t, l.AddInFlight(ledger.RefTo(planned), "pod", planned.Status.Allocation))
	refresh(l, "x", versioned(other, 2))
	require.Equal(t, []string{"gpu-0: x", "gpu-1: x"}, holders(l, "a"))
}
