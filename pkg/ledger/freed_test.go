package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// freed returns the expected result for some devices of one pool.
func freed(pool string, devices ...string) ledger.Freed { return ledger.Freed{poolID(pool): devices} }

func refreshed(l *ledger.Ledger, name string, claim *resourceapi.ResourceClaim) ledger.Freed {
	return l.Refresh(b.Namespace+"/"+name, func() *resourceapi.ResourceClaim { return claim })
}

// TestFreed: each method that changes the ledger returns the devices that became free.
func TestFreed(t *testing.T) {
	l := ledger.New()
	none, one, two := b.Claim("x").Obj(), b.Claim("x").Allocated("a", "gpu-0"), b.Claim("x").Allocated("a", "gpu-0", "gpu-1")
	require.Empty(t, refreshed(l, "x", versioned(none.DeepCopy(), 1)))
	require.Empty(t, l.Observe(versioned(two.DeepCopy(), 2)))
	require.Equal(t, freed("a", "gpu-1"), l.Observe(versioned(one.DeepCopy(), 3)))
	require.Empty(t, refreshed(l, "x", versioned(none.DeepCopy(), 1)), "is older")
	require.Equal(t, freed("a", "gpu-0"), refreshed(l, "x", versioned(none.DeepCopy(), 4)), "no event shows that it had any")
	require.Empty(t, refreshed(l, "x", versioned(two.DeepCopy(), 5)))
	require.Equal(t, freed("a", "gpu-0", "gpu-1"), refreshed(l, "x", versioned(b.Claim("x").Allocated("c", "gpu-0"), 6)))
	require.Equal(t, freed("c", "gpu-0"), refreshed(l, "x", nil))
	require.Empty(t, refreshed(l, "x", nil))

	require.Empty(t, refreshed(l, "x", versioned(two.DeepCopy(), 7)))
	require.Equal(t, freed("a", "gpu-0", "gpu-1"), l.Gone(two.UID))
	require.Empty(t, l.Gone(two.UID))

	require.Empty(t, refreshed(l, "x", versioned(one.DeepCopy(), 8)))
	replaced := versioned(b.Claim("x").Allocated("a", "gpu-1"), 9)
	replaced.UID = "another"
	require.Equal(t, freed("a", "gpu-0"), refreshed(l, "x", replaced))
}

func TestFreedFromFlight(t *testing.T) {
	l := ledger.New()
	claim := b.Claim("x").Allocated("a", "gpu-0")
	add := func(user types.UID) {
		require.NoError(t, l.AddInFlight(ledger.RefTo(claim), user, claim.Status.Allocation))
	}
	add("one")
	add("other")
	require.Empty(t, l.RemoveInFlight(claim.UID, "one"), "others use it")
	require.Equal(t, freed("a", "gpu-0"), l.RemoveInFlight(claim.UID, "other"))
	require.Empty(t, l.RemoveInFlight(claim.UID, "other"))

	refresh(l, "x", versioned(b.Claim("x").Obj(), 1))
	add("one")
	require.Empty(t, l.Observe(versioned(claim.DeepCopy(), 2)))
	require.Empty(t, l.RemoveInFlight(claim.UID, "one"), "was written")
	add("one")
	require.Empty(t, l.Gone(claim.UID), "is in flight still")
	require.Equal(t, freed("a", "gpu-0"), l.RemoveInFlight(claim.UID, "one"))
}

// TestFreedOnlyInPart: what others have is not free.
func TestFreedOnlyInPart(t *testing.T) {
	l := ledger.New()
	share := func(name, id string) *resourceapi.ResourceClaim {
		claim := b.Claim(name).Allocated("a", "nic-0")
		claim.Status.Allocation.Devices.Results[0].ShareID = ptr.To(types.UID(id))
		return claim
	}
	refresh(l, "x", share("x", "s1"))
	refresh(l, "y", share("y", "s2"))
	require.Equal(t, freed("a", "nic-0"), refreshed(l, "x", nil), "there is room for another share")

	refresh(l, "p", b.Claim("p").Allocated("a", "gpu-0"))
	refresh(l, "q", b.Claim("q").Allocated("a", "gpu-0"))
	require.Empty(t, refreshed(l, "p", nil), "was allocated twice")
	require.Equal(t, freed("a", "gpu-0"), refreshed(l, "q", nil))

	admin := b.Claim("admin").Allocated("a", "gpu-1")
	admin.Status.Allocation.Devices.Results[0].AdminAccess = ptr.To(true)
	refresh(l, "admin", admin)
	require.Empty(t, refreshed(l, "admin", nil), "took nothing from anybody")
}
