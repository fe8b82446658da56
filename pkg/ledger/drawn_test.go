package ledger_test

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// following is a ledger that follows slices.
type following struct {
	*ledger.Ledger
	store *inventory.Store
}

func newFollowing(published ...*b.SliceBuilder) following {
	f := following{ledger.New(), inventory.NewStore(inventory.Options{PartitionableDevices: true, CompatibilityGroups: true})}
	f.Follow(f.store)
	f.publish(published...)
	return f
}

func (f following) publish(published ...*b.SliceBuilder) {
	for _, slice := range objectsOf(published) {
		f.store.RefreshSlice(slice.Name, func() *resourceapi.ResourceSlice { return slice })
	}
}

func (f following) withdraw(names ...string) {
	for _, name := range names {
		f.store.RefreshSlice(name, func() *resourceapi.ResourceSlice { return nil })
	}
}

// memory returns the amount left of the counter of that name in pool p, or the devices with unknown
// consumption.
func (f following) memory() string {
	pool := f.store.Pool(poolID("p")).Everywhere()
	remaining := f.Pool(pool.ID).Remaining(pool)
	switch {
	case len(remaining.Unknown) > 0:
		return fmt.Sprint(remaining.Unknown)
	case len(remaining.Amounts) == 0:
		return "none"
	}
	left := remaining.Amounts[0].Quantity(pool.Counters.Formats[0])
	return left.String()
}

// tries is the error that a claim gets which is to have a device of pool p.
func (f following) tries(device string) error {
	claim := b.Claim("tries").Allocated("p", device)
	err := f.AddInFlight(ledger.RefTo(claim), "pod", claim.Status.Allocation)
	f.RemoveInFlight(claim.UID, "pod")
	return err
}

// generation is a generation of pool p: a slice with 40 of memory, and one with devices by what they draw.
func generation(n int64, devices ...*b.DeviceBuilder) []*b.SliceBuilder {
	return []*b.SliceBuilder{
		b.Slice(fmt.Sprint("counters-", n)).InPool("p", n, 2).OnNode("a").Counters("set", "memory", "40"),
		b.Slice(fmt.Sprint("devices-", n)).InPool("p", n, 2).OnNode("a").Devices(devices...),
	}
}

func draws(name, memory string) *b.DeviceBuilder {
	return b.Device(name).Consumes("set", "memory", memory)
}

// TestWithdrawn: what devices in use drew goes on to count (kubernetes #140802).
func TestWithdrawn(t *testing.T) {
	t.Parallel()
	const half, whole = "half", "whole"
	first := generation(1, draws(half, "20"), draws("other", "20"), draws(whole, "40"), b.Device("plain"))
	second := generation(2, draws("other", "20"), draws(whole, "40"), b.Device("plain"))
	holds := func(f following) { refresh(f.Ledger, "x", versioned(b.Claim("x").Allocated("p", half), 1)) }
	for name, tc := range map[string]struct {
		then []func(following)
		want string
	}{
		"a new generation without it": {
			then: []func(following){func(f following) { f.publish(second...) }},
			want: "20",
		},
		"and the old one is deleted": {
			then: []func(following){func(f following) { f.publish(second...); f.withdraw("counters-1", "devices-1") }},
			want: "20",
		},
		"the old one is deleted before the new one comes": {
			then: []func(following){func(f following) { f.withdraw("counters-1", "devices-1"); f.publish(second...) }},
			want: "20",
		},
		"slices are updated, in any order": {
			then: []func(following){func(f following) {
				updated := generation(1, draws("other", "20"))
				f.publish(updated[1].InPool("p", 2, 2))
				f.publish(updated[0].InPool("p", 2, 2))
			}},
			want: "20",
		},
		"it is dropped without a new generation": {
			then: []func(following){func(f following) { f.publish(generation(1, draws("other", "20"))...) }},
			want: "20",
		},
		"half of the new generation was seen": {
			then: []func(following){func(f following) { f.publish(second[1]) }},
			want: "none",
		},
		"it draws less": {
			then: []func(following){func(f following) { f.publish(generation(2, draws(half, "5"))...); f.withdraw("devices-1") }},
			want: "20",
		},
		"it draws more": {
			then: []func(following){func(f following) { f.publish(generation(2, draws(half, "25"))...); f.withdraw("devices-1") }},
			want: "15",
		},
		"it comes back with less": {
			then: []func(following){func(f following) { f.publish(second...); f.publish(generation(3, draws(half, "10"))...) }},
			want: "20",
		},
		"it comes back with more and goes again": {
			then: []func(following){func(f following) {
				f.publish(second...)
				f.publish(generation(3, draws(half, "30"))...)
				f.publish(generation(4, draws("other", "20"))...)
			}},
			want: "10",
		},
		"another claim has the other one and both are gone": {
			then: []func(following){
				func(f following) { refresh(f.Ledger, "y", b.Claim("y").Allocated("p", "other")) },
				func(f following) { f.publish(generation(2, draws(whole, "40"))...) },
			},
			want: "0",
		},
		"of two that are gone one is released": {
			then: []func(following){
				func(f following) { refresh(f.Ledger, "y", b.Claim("y").Allocated("p", "other")) },
				func(f following) { f.publish(generation(2, draws(whole, "40"))...) },
				func(f following) { refresh(f.Ledger, "y", nil) },
			},
			want: "20",
		},
		"it is released": {
			then: []func(following){func(f following) { f.publish(second...); refresh(f.Ledger, "x", nil) }},
			want: "40",
		},
		"it is released and comes back with less for somebody else": {
			then: []func(following){func(f following) {
				f.publish(second...)
				refresh(f.Ledger, "x", nil)
				f.publish(generation(3, draws(half, "10"))...)
				refresh(f.Ledger, "y", b.Claim("y").Allocated("p", half))
			}},
			want: "30",
		},
		"the counter set goes": {
			then: []func(following){func(f following) {
				f.publish(b.Slice("devices-2").InPool("p", 2, 1).OnNode("a").Devices(b.Device("plain")))
			}},
			want: "none",
		},
		"the counter set comes back": {
			then: []func(following){func(f following) {
				f.publish(b.Slice("devices-2").InPool("p", 2, 1).OnNode("a").Devices(b.Device("plain")))
				f.withdraw("devices-1", "counters-1")
				f.publish(generation(3, draws(whole, "40"))...)
			}},
			want: "20",
		},
		"a device that draws nothing goes": {
			then: []func(following){
				func(f following) { refresh(f.Ledger, "y", b.Claim("y").Allocated("p", "plain")) },
				func(f following) { f.publish(generation(2, draws(whole, "40"))...) },
			},
			want: "20",
		},
		"the claim is written again": {
			then: []func(following){func(f following) {
				f.publish(second...)
				f.withdraw("counters-1", "devices-1")
				refresh(f.Ledger, "x", versioned(b.Claim("x").Allocated("p", half, "plain"), 2))
			}},
			want: "20",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFollowing(first...)
			holds(f)
			require.Equal(t, "20", f.memory())
			for _, then := range tc.then {
				then(f)
			}
			require.Equal(t, tc.want, f.memory())
		})
	}
}

// TestWithdrawnInFlight: the remembered consumption stays when a claim that was put in flight
// before it exists (KEP-5004) gets its UID, and when an in-flight allocation is committed.
func TestWithdrawnInFlight(t *testing.T) {
	t.Parallel()
	f := newFollowing(generation(1, draws("half", "20"))...)
	claim := b.Claim("x").Allocated("p", "half")
	require.NoError(t, f.AddInFlight(ledger.ClaimRef{UID: "not yet"}, "pod", claim.Status.Allocation))
	f.publish(generation(2, draws("whole", "40"))...)
	f.withdraw("counters-1", "devices-1")
	require.Equal(t, "20", f.memory())
	f.Rename("not yet", ledger.RefTo(claim))
	require.Equal(t, "20", f.memory())
	refresh(f.Ledger, "x", claim)
	f.RemoveInFlight(claim.UID, "pod")
	require.Equal(t, "20", f.memory())
	require.ErrorContains(t, f.tries("whole"), "too little is left of counter")
	refresh(f.Ledger, "x", nil)
	require.NoError(t, f.tries("whole"))
}

// TestWithdrawnBeforeTheStart: the consumption of a device that was withdrawn before the ledger
// existed is unknown. While the device is in use, no device that consumes counters of that pool is
// allocated; other devices are.
func TestWithdrawnBeforeTheStart(t *testing.T) {
	t.Parallel()
	published := append(generation(2, draws("half", "20"), b.Device("plain")),
		b.Slice("elsewhere").InPool("q", 1, 2).OnNode("a").Devices(draws("half", "20")),
		b.Slice("elsewhere-counters").InPool("q", 1, 2).OnNode("a").Counters("set", "memory", "40"))
	for name, order := range map[string][2]string{"claims first": {"claims", "slices"}, "slices first": {"slices", "claims"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFollowing()
			for _, kind := range order {
				if kind == "claims" {
					refresh(f.Ledger, "x", b.Claim("x").Allocated("p", "gone"))
				} else {
					f.publish(published...)
				}
			}
			require.Equal(t, "[gone]", f.memory())
			pool := f.store.Pool(poolID("p")).Everywhere()
			require.Equal(t, []int{0}, slices.Collect(f.Pool(pool.ID).Exhausted(pool).All()))
			require.ErrorContains(t, f.tries("half"), "device gone of that pool is in use and its driver does not publish it any more")
			require.NoError(t, f.tries("plain"))
			elsewhere := b.Claim("elsewhere").Allocated("q", "half")
			require.NoError(t, f.AddInFlight(ledger.RefTo(elsewhere), "pod", elsewhere.Status.Allocation))
			require.Equal(t, "40", memoryOf(ledger.Without(f, sets.New(b.Claim("x").Obj().UID).Has), pool), "if the claim was not there")

			refresh(f.Ledger, "x", nil)
			require.Equal(t, "40", f.memory())
			require.NoError(t, f.tries("half"))
		})
	}
}

func memoryOf(v ledger.View, pool *inventory.NodePool) string {
	left := v.Pool(pool.ID).Remaining(pool).Amounts[0].Quantity(pool.Counters.Formats[0])
	return left.String()
}

// TestFormerSlices: a ledger that is started while slices of the older generation still exist uses
// their consumption.
func TestFormerSlices(t *testing.T) {
	t.Parallel()
	f := newFollowing(append(generation(1, draws("half", "20")), generation(2, draws("whole", "40"))...)...)
	refresh(f.Ledger, "x", b.Claim("x").Allocated("p", "half"))
	require.Equal(t, "20", f.memory())
	f.withdraw("counters-1", "devices-1")
	require.Equal(t, "20", f.memory())
	refresh(f.Ledger, "y", b.Claim("y").Allocated("p", "whole"))
	require.Equal(t, "-20", f.memory())
}

// TestCountersWithoutEnd: a driver that publishes other counters each time does not fill the memory.
func TestCountersWithoutEnd(t *testing.T) {
	t.Parallel()
	f := newFollowing()
	publish := func(n int) {
		set := fmt.Sprint("set-", n)
		f.publish(b.Slice("counters").InPool("p", int64(n), 2).OnNode("a").Counters(set, "memory", "40"),
			b.Slice("devices").InPool("p", int64(n), 2).OnNode("a").Devices(b.Device("half").Consumes(set, "memory", "20")))
	}
	publish(1)
	refresh(f.Ledger, "x", b.Claim("x").Allocated("p", "half"))
	for n := 2; n < 100; n++ {
		publish(n)
		require.Equal(t, "20", f.memory())
	}
	for n := 100; n < 1_000; n++ {
		publish(n)
	}
	require.Equal(t, "[half]", f.memory())
	refresh(f.Ledger, "x", nil)
	require.Equal(t, "40", f.memory())
}

// TestOlderLeftovers: a slice of an older generation that goes late says nothing about devices that are published.
func TestOlderLeftovers(t *testing.T) {
	t.Parallel()
	f := newFollowing(append(generation(1, draws("half", "40")), generation(2, draws("half", "20"))...)...)
	refresh(f.Ledger, "x", b.Claim("x").Allocated("p", "half"))
	f.withdraw("counters-1", "devices-1")
	require.Equal(t, "20", f.memory())
	f.publish(generation(3, draws("whole", "40"))...)
	require.Equal(t, "20", f.memory())
}

// TestRandomWithdrawals: in pools of any size, the amount left is the published amount less the
// maximum consumption of each device in use that was published while it was in use.
func TestRandomWithdrawals(t *testing.T) {
	t.Parallel()
	for seed := range int64(60) {
		rng := rand.New(rand.NewSource(seed))
		n := 4 + 80*rng.Intn(2)
		name := func(i int) string { return fmt.Sprint("d", i) }
		f, published, most, version := newFollowing(), map[string]int{}, map[string]int{}, int64(0)
		republish := func() {
			version++
			clear(published)
			var devices []*b.DeviceBuilder
			for i := range n {
				if rng.Intn(4) > 0 {
					published[name(i)] = 1 + rng.Intn(3)
					devices = append(devices, draws(name(i), fmt.Sprint(published[name(i)])))
				}
			}
			f.publish(b.Slice(fmt.Sprint("devices-", version)).InPool("p", version, 2).OnNode("a").Devices(devices...),
				b.Slice("counters").InPool("p", version, 2).OnNode("a").Counters("set", "memory", "400"))
			if version > 1 {
				f.withdraw(fmt.Sprint("devices-", version-1))
			}
			for device := range most {
				most[device] = max(most[device], published[device])
			}
		}
		republish()
		for step := range 60 {
			device := name(rng.Intn(n))
			switch _, used := most[device]; {
			case rng.Intn(10) == 0:
				republish()
			case used:
				delete(most, device)
				refresh(f.Ledger, device, nil)
			case published[device] > 0:
				most[device] = published[device]
				refresh(f.Ledger, device, b.Claim(device).Allocated("p", device))
			}
			left := 400
			for drawn := range maps.Values(most) {
				left -= drawn
			}
			require.Equal(t, fmt.Sprint(left), f.memory(), "seed %d, step %d", seed, step)
			pool := f.store.Pool(poolID("p")).Everywhere()
			f.Pool(pool.ID).Exhausted(pool) // So that it is carried.
		}
	}
}

// TestLeftover: a process that was started while a pool was being updated knows from the slices of before what devices draw,
// also when these go.
func TestLeftover(t *testing.T) {
	t.Parallel()
	counters := b.Slice("counters").InPool("p", 2, 2).OnNode("a").Counters("set", "memory", "40")
	devices := func(name string, generation int64, devices ...*b.DeviceBuilder) *b.SliceBuilder {
		return b.Slice(name).InPool("p", generation, 2).OnNode("a").Devices(devices...)
	}
	for name, update := range map[string]func(following){
		"updated in place": func(f following) { f.publish(devices("devices-1", 2, draws("rest", "20"))) },
		"deleted before": func(f following) {
			f.withdraw("devices-1")
			f.publish(devices("devices-2", 2, draws("rest", "20")))
		},
		"deleted after": func(f following) {
			f.publish(devices("devices-2", 2, draws("rest", "20")))
			f.withdraw("devices-1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFollowing(counters, devices("devices-1", 1, draws("half", "20"), draws("rest", "20")))
			refresh(f.Ledger, "x", b.Claim("x").Allocated("p", "half"))
			update(f)
			require.Equal(t, "20", f.memory())
		})
	}
}
