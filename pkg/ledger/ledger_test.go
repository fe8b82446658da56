package ledger_test

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

func poolID(name string) inventory.PoolID { return inventory.PoolID{Driver: b.Driver, Name: name} }

func versioned(claim *resourceapi.ResourceClaim, version int) *resourceapi.ResourceClaim {
	claim.ResourceVersion = strconv.Itoa(version)
	return claim
}

func refresh(l *ledger.Ledger, name string, claim *resourceapi.ResourceClaim) {
	l.Refresh(b.Namespace+"/"+name, func() *resourceapi.ResourceClaim { return claim })
}

// holders lists "device: claims" of a pool.
func holders(v ledger.View, pool string) []string {
	var result []string
	devices := maps.Collect(v.Pool(poolID(pool)).All())
	for _, device := range slices.Sorted(maps.Keys(devices)) {
		line := device + ":"
		for _, holder := range devices[device].Holders {
			line += " " + holder.Name
		}
		for _, share := range devices[device].Shares {
			line += " share " + string(share.ID) + " of " + share.Holder.Name
		}
		result = append(result, line)
	}
	return result
}

func TestCommitted(t *testing.T) {
	l := ledger.New()
	require.Empty(t, holders(l, "a"))
	refresh(l, "x", versioned(b.Claim("x").Obj(), 1))
	require.Empty(t, holders(l, "a"))
	refresh(l, "x", versioned(b.Claim("x").Allocated("a", "gpu-0", "gpu-1"), 2))
	require.Equal(t, []string{"gpu-0: x", "gpu-1: x"}, holders(l, "a"))

	usage := l.Pool(poolID("a"))
	refresh(l, "x", versioned(b.Claim("x").Allocated("a", "gpu-0", "gpu-1"), 3))
	require.Same(t, usage, l.Pool(poolID("a")), "an update that does not touch the devices costs nothing")

	refresh(l, "x", versioned(b.Claim("x").Obj(), 4))
	require.Empty(t, holders(l, "a"))
	require.Equal(t, []string{"gpu-0", "gpu-1"}, slices.Sorted(maps.Keys(maps.Collect(usage.All()))), "published values never change")
}

func TestAdminAccessHoldsNothing(t *testing.T) {
	l := ledger.New()
	claim := b.Claim("x").Allocated("a", "gpu-0")
	claim.Status.Allocation.Devices.Results[0].AdminAccess = ptr.To(true)
	refresh(l, "x", claim)
	require.Empty(t, holders(l, "a"))
	require.NoError(t, l.AddInFlight(ledger.RefTo(b.Claim("y").Obj()), "pod", b.Claim("y").Allocated("a", "gpu-0").Status.Allocation))
}

func TestShares(t *testing.T) {
	l := ledger.New()
	shared := func(name, id string) *resourceapi.ResourceClaim {
		claim := b.Claim(name).Allocated("a", "nic-0")
		claim.Status.Allocation.Devices.Results[0].ShareID = ptr.To(types.UID(id))
		return claim
	}
	refresh(l, "x", shared("x", "s1"))
	refresh(l, "y", shared("y", "s2"))
	require.Equal(t, []string{"nic-0: share s1 of x share s2 of y"}, holders(l, "a"))

	exclusive := b.Claim("z").Allocated("a", "nic-0")
	require.ErrorContains(t, l.AddInFlight(ledger.RefTo(exclusive), "pod", exclusive.Status.Allocation), "holds it by now")
	require.ErrorContains(t, l.AddInFlight(ledger.RefTo(exclusive), "pod", shared("z", "s2").Status.Allocation), "claim default/y holds it by now",
		"the share is that of another claim")
	require.NoError(t, l.AddInFlight(ledger.RefTo(exclusive), "pod", shared("z", "s3").Status.Allocation))
	refresh(l, "x", nil)
	require.Equal(t, []string{"nic-0: share s2 of y share s3 of z"}, holders(l, "a"))
}

func TestOlderStatesAreIgnored(t *testing.T) {
	l := ledger.New()
	refresh(l, "x", versioned(b.Claim("x").Obj(), 5))
	l.Observe(versioned(b.Claim("x").Allocated("a", "gpu-0"), 9))
	refresh(l, "x", versioned(b.Claim("x").Obj(), 7))
	require.Equal(t, []string{"gpu-0: x"}, holders(l, "a"), "the informer is behind our own write")
	refresh(l, "x", versioned(b.Claim("x").Obj(), 10))
	require.Empty(t, holders(l, "a"))
	l.Observe(versioned(b.Claim("x").Allocated("a", "gpu-0"), 9))
	require.Empty(t, holders(l, "a"), "our own write is behind the informer")
}

// TestLateAnswer: the answer to a write comes after the claim has been deleted.
func TestLateAnswer(t *testing.T) {
	x := versioned(b.Claim("x").Allocated("a", "gpu-0"), 3)
	t.Run("to an allocation", func(t *testing.T) {
		l := ledger.New()
		refresh(l, "x", versioned(b.Claim("x").Obj(), 2))
		require.NoError(t, l.AddInFlight(ledger.RefTo(x), "pod", x.Status.Allocation))
		refresh(l, "x", nil)
		l.Observe(x)
		require.Equal(t, []string{"gpu-0: x"}, holders(l, "a"), "still in flight")
		l.RemoveInFlight(x.UID, "pod")
		require.Empty(t, holders(l, "a"))
	})
	t.Run("to a reservation", func(t *testing.T) {
		l := ledger.New()
		refresh(l, "x", versioned(x.DeepCopy(), 2))
		refresh(l, "x", nil)
		l.Observe(x)
		require.Empty(t, holders(l, "a"))
	})
	t.Run("of a claim nobody else has seen", func(t *testing.T) {
		l := ledger.New()
		require.NoError(t, l.AddInFlight(ledger.RefTo(x), "pod", x.Status.Allocation))
		l.Observe(x)
		l.RemoveInFlight(x.UID, "pod")
		require.Equal(t, []string{"gpu-0: x"}, holders(l, "a"))
		l.Gone(x.UID)
		require.Empty(t, holders(l, "a"))
	})
}

func TestReplacedClaim(t *testing.T) {
	l := ledger.New()
	refresh(l, "x", versioned(b.Claim("x").Allocated("a", "gpu-0"), 5))
	again := versioned(b.Claim("x").Allocated("a", "gpu-1"), 8)
	again.UID = "second"
	refresh(l, "x", again)
	require.Equal(t, []string{"gpu-1: x"}, holders(l, "a"))
	l.Observe(versioned(b.Claim("x").Allocated("a", "gpu-0"), 6))
	require.Equal(t, []string{"gpu-1: x"}, holders(l, "a"), "a late answer for the first claim of that name")
}

func TestInFlight(t *testing.T) {
	l := ledger.New()
	x, y := b.Claim("x").Allocated("a", "gpu-0"), b.Claim("y").Allocated("a", "gpu-1", "gpu-0")
	refresh(l, "x", versioned(b.Claim("x").Obj(), 1))
	require.NoError(t, l.AddInFlight(ledger.RefTo(x), "pod", x.Status.Allocation))
	require.Equal(t, []string{"gpu-0: x"}, holders(l, "a"))
	require.Same(t, x.Status.Allocation, l.InFlight("uid-x"))
	require.Equal(t, 1, l.InFlightCount())

	err := l.AddInFlight(ledger.RefTo(y), "pod", y.Status.Allocation)
	require.EqualError(t, err, "claim default/y was to get device gpu.example.com/a/gpu-0 "+
		"but claim default/x holds it by now; looking for other devices")
	require.Equal(t, []string{"gpu-0: x"}, holders(l, "a"), "a failure changes nothing")
	require.Nil(t, l.InFlight("uid-y"))

	l.Observe(versioned(x.DeepCopy(), 2))
	require.Equal(t, []string{"gpu-0: x"}, holders(l, "a"), "committed and in flight count once")
	l.RemoveInFlight("uid-x", "pod")
	require.Equal(t, []string{"gpu-0: x"}, holders(l, "a"))
	refresh(l, "x", nil)
	require.Empty(t, holders(l, "a"))
	require.NoError(t, l.AddInFlight(ledger.RefTo(y), "pod", y.Status.Allocation))
	l.RemoveInFlight("uid-y", "pod")
	l.RemoveInFlight("uid-y", "pod")
	require.Empty(t, holders(l, "a"))
	require.Zero(t, l.InFlightCount())
}

func TestInFlightOutlivesTheClaim(t *testing.T) {
	l := ledger.New()
	x := b.Claim("x").Allocated("a", "gpu-0")
	refresh(l, "x", versioned(b.Claim("x").Obj(), 1))
	require.NoError(t, l.AddInFlight(ledger.RefTo(x), "pod", x.Status.Allocation))
	refresh(l, "x", nil)
	require.Equal(t, []string{"gpu-0: x"}, holders(l, "a"), "the write may still be under way")
	l.RemoveInFlight("uid-x", "pod")
	require.Empty(t, holders(l, "a"))
}

func TestConflictKeepsAllHolders(t *testing.T) {
	l := ledger.New()
	refresh(l, "x", b.Claim("x").Allocated("a", "gpu-0"))
	refresh(l, "y", b.Claim("y").Allocated("a", "gpu-0"))
	require.Equal(t, []string{"gpu-0: x y"}, holders(l, "a"))
	refresh(l, "x", nil)
	require.Equal(t, []string{"gpu-0: y"}, holders(l, "a"))
}

func TestWithout(t *testing.T) {
	l := ledger.New()
	refresh(l, "x", b.Claim("x").Allocated("a", "gpu-0"))
	refresh(l, "y", b.Claim("y").Allocated("a", "gpu-0", "gpu-1"))
	refresh(l, "z", b.Claim("z").Allocated("a", "gpu-2"))
	overlay := ledger.Without(l, sets.New[types.UID]("uid-x", "uid-z").Has)
	require.Equal(t, []string{"gpu-0: y", "gpu-1: y"}, holders(overlay, "a"))
	require.Equal(t, []string{"gpu-0: x y", "gpu-1: y", "gpu-2: z"}, holders(l, "a"))
	require.Empty(t, holders(overlay, "b"))
}

// TestRandomEventsAgainstModel applies random events and compares with the
// obvious: a list of claims that is gone through from the start each time.
func TestRandomEventsAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewSource(3))
	for range 300 {
		l := ledger.New()
		committed := map[string]*resourceapi.ResourceClaim{}
		inFlight := map[string]*resourceapi.ResourceClaim{}
		gone := map[string]bool{} // while in flight
		for version := range 40 {
			name := fmt.Sprintf("claim-%d", rng.Intn(4))
			allocated := b.Claim(name).Allocated(fmt.Sprintf("pool-%d", rng.Intn(2)), fmt.Sprintf("gpu-%d", rng.Intn(3)))
			switch rng.Intn(5) {
			case 0:
				gone[name] = gone[name] || committed[name] != nil && inFlight[name] != nil
				delete(committed, name)
				refresh(l, name, nil)
			case 1:
				committed[name], gone[name] = versioned(b.Claim(name).Obj(), version+1), false
				refresh(l, name, committed[name])
			case 2:
				answer := versioned(allocated, version+1)
				l.Observe(answer)
				if committed[name] != nil || inFlight[name] != nil && !gone[name] {
					committed[name] = answer
				}
			case 3:
				if l.AddInFlight(ledger.RefTo(allocated), "pod", allocated.Status.Allocation) == nil {
					inFlight[name] = allocated
				}
			case 4:
				delete(inFlight, name)
				delete(gone, name)
				l.RemoveInFlight(types.UID("uid-"+name), "pod")
			}
			for _, pool := range []string{"pool-0", "pool-1"} {
				require.ElementsMatch(t, modelHolders(pool, committed, inFlight), flatten(l, pool))
			}
			require.Equal(t, len(inFlight), l.InFlightCount())
		}
	}
}

func flatten(v ledger.View, pool string) []string {
	var result []string
	for device, usage := range v.Pool(poolID(pool)).All() {
		for _, holder := range usage.Holders {
			result = append(result, device+" "+holder.Name)
		}
	}
	return result
}

func modelHolders(pool string, committed, inFlight map[string]*resourceapi.ResourceClaim) []string {
	holders := map[string]bool{}
	for _, claims := range []map[string]*resourceapi.ResourceClaim{committed, inFlight} {
		for name, claim := range claims {
			if claim == nil || claim.Status.Allocation == nil {
				continue
			}
			for _, r := range claim.Status.Allocation.Devices.Results {
				if r.Pool == pool {
					holders[r.Device+" "+name] = true
				}
			}
		}
	}
	return slices.Collect(maps.Keys(holders))
}

func TestConcurrentPlansNeverShareADevice(t *testing.T) {
	l := ledger.New()
	var won sync.Map
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			name := fmt.Sprintf("claim-%d", i)
			for d := range 8 {
				claim := b.Claim(name).Allocated("a", fmt.Sprintf("gpu-%d", d))
				if l.AddInFlight(ledger.RefTo(claim), "pod", claim.Status.Allocation) == nil {
					_, twice := won.LoadOrStore(d, name)
					require.False(t, twice)
					return
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, 8, l.InFlightCount())
}
