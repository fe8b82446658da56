package ledger_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// ledgerOf returns a ledger that judges by published slices.
func ledgerOf(builders ...*b.SliceBuilder) *ledger.Ledger {
	store := inventory.FromSlices(objectsOf(builders), inventory.Options{PartitionableDevices: true})
	l := ledger.New()
	l.Pools = func(id inventory.PoolID) *inventory.NodePool {
		if pool := store.Pool(id); pool != nil {
			return pool.Everywhere()
		}
		return nil
	}
	return l
}

// partitions is a pool whose counter suffices for 40 of something: device "whole" draws all
// of it, "half-0" and "half-1" half of it, "other" nothing. Node b has a quarter.
func partitions() []*b.SliceBuilder {
	return []*b.SliceBuilder{
		b.Slice("counters").InPool("p", 1, 3).OnNode("a").Counters("set", "memory", "40"),
		b.Slice("devices").InPool("p", 1, 3).OnNode("a").Devices(
			b.Device("whole").Consumes("set", "memory", "40"),
			b.Device("half-0").Shared().Consumes("set", "memory", "20"),
			b.Device("half-1").Consumes("set", "memory", "20"),
			b.Device("other")),
		b.Slice("elsewhere").InPool("p", 1, 3).OnNode("b").Devices(
			b.Device("quarter").Consumes("set", "memory", "10")),
	}
}

// share is a claim's part of device nic; amounts of capacity bandwidth, one share each.
func share(name string, amounts ...string) *resourceapi.ResourceClaim {
	claim := b.Claim(name).Allocated("p", make([]string, len(amounts))...)
	for i, amount := range amounts {
		result := &claim.Status.Allocation.Devices.Results[i]
		result.Device, result.ShareID = "nic", ptr.To(types.UID(fmt.Sprintf("%s-%d", name, i)))
		if amount != "" {
			result.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"bandwidth": resource.MustParse(amount)}
		}
	}
	return claim
}

func TestOverdrawn(t *testing.T) {
	t.Parallel()
	nic := []*b.SliceBuilder{b.Slice("p").OnNode("a").Devices(b.Device("nic").Shared().Capacity("bandwidth", "10"))}
	partition := func(name string, devices ...string) *resourceapi.ResourceClaim {
		return b.Claim(name).Allocated("p", devices...)
	}
	shareOf := func(name, device string) *resourceapi.ResourceClaim {
		claim := partition(name, device)
		claim.Status.Allocation.Devices.Results[0].ShareID = ptr.To(types.UID("share-of-" + name))
		return claim
	}
	admin := partition("late", "whole")
	admin.Status.Allocation.Devices.Results[0].AdminAccess = ptr.To(true)
	tests := map[string]struct {
		slices []*b.SliceBuilder
		held   []*resourceapi.ResourceClaim
		late   *resourceapi.ResourceClaim
		want   string // what is overdrawn, "" if nothing is
	}{
		"counter exactly used":                      {partitions(), []*resourceapi.ResourceClaim{partition("x", "half-0")}, partition("late", "half-1"), ""},
		"counter by another device":                 {partitions(), []*resourceapi.ResourceClaim{partition("x", "half-0")}, partition("late", "whole"), "counter set/memory"},
		"counter by a device elsewhere":             {partitions(), []*resourceapi.ResourceClaim{partition("x", "quarter")}, partition("late", "whole"), "counter set/memory"},
		"counter by several devices of the claim":   {partitions(), nil, partition("late", "half-0", "half-1", "quarter"), "counter set/memory"},
		"no counter drawn":                          {partitions(), []*resourceapi.ResourceClaim{partition("x", "whole")}, partition("late", "other"), ""},
		"overdrawn already, nothing drawn":          {partitions(), []*resourceapi.ResourceClaim{partition("x", "whole"), partition("y", "half-1")}, partition("late", "other"), ""},
		"one more share draws nothing":              {partitions(), []*resourceapi.ResourceClaim{shareOf("x", "half-0"), partition("y", "half-1")}, shareOf("late", "half-0"), ""},
		"the first share draws":                     {partitions(), []*resourceapi.ResourceClaim{partition("y", "half-1"), partition("z", "quarter")}, shareOf("late", "half-0"), "counter set/memory"},
		"admin access draws nothing":                {partitions(), []*resourceapi.ResourceClaim{partition("x", "half-0")}, admin, ""},
		"capacity exactly used":                     {nic, []*resourceapi.ResourceClaim{share("x", "4"), share("y", "3")}, share("late", "3"), ""},
		"capacity":                                  {nic, []*resourceapi.ResourceClaim{share("x", "4"), share("y", "3")}, share("late", "3001m"), "capacity bandwidth"},
		"capacity by several shares of the claim":   {nic, []*resourceapi.ResourceClaim{share("x", "4")}, share("late", "3", "4"), "capacity bandwidth"},
		"capacity, nothing consumed":                {nic, []*resourceapi.ResourceClaim{share("x", "10")}, share("late", ""), ""},
		"a device that is not published":            {nic, nil, partition("late", "gone"), ""},
		"a pool that is not published":              {nil, nil, share("late", "11"), ""},
		"a pool that is not completely published":   {partitions()[:2], nil, partition("late", "half-0", "half-1", "whole"), ""},
		"a share of a device without that capacity": {[]*b.SliceBuilder{b.Slice("p").OnNode("a").Devices(b.Device("nic").Shared())}, nil, share("late", "11"), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := ledgerOf(test.slices...)
			for _, claim := range test.held {
				refresh(l, claim.Name, claim)
			}
			err := l.AddInFlight(ledger.RefTo(test.late), "pod", test.late.Status.Allocation)
			if test.want == "" {
				require.NoError(t, err)
				require.Equal(t, 1, l.InFlightCount())
				return
			}
			require.ErrorContains(t, err, "claim default/late")
			require.ErrorContains(t, err, "too little is left of "+test.want+" by now")
			require.Zero(t, l.InFlightCount(), "nothing changed")
		})
	}
}

// TestInFlightCounts: what is in flight counts like what is committed, until it ends.
func TestInFlightCounts(t *testing.T) {
	t.Parallel()
	l := ledgerOf(b.Slice("p").OnNode("a").Devices(b.Device("nic").Shared().Capacity("bandwidth", "10")))
	add := func(claim *resourceapi.ResourceClaim) error {
		return l.AddInFlight(ledger.RefTo(claim), types.UID("pod-"+claim.Name), claim.Status.Allocation)
	}
	x, y := share("x", "6"), share("y", "5")
	require.NoError(t, add(x))
	require.Error(t, add(y))
	require.NoError(t, add(x), "what holds it already may have it")
	require.NoError(t, add(share("x", "10")), "in place of what it has")
	require.NoError(t, add(x))
	l.Observe(versioned(x.DeepCopy(), 1))
	l.RemoveInFlight(x.UID, "pod-x")
	require.Error(t, add(y), "committed now")
	require.NoError(t, add(x))
	l.RemoveInFlight(x.UID, "pod-x")
	refresh(l, "x", versioned(b.Claim("x").Obj(), 2))
	require.NoError(t, add(y), "released")
}

func TestIncompatible(t *testing.T) {
	t.Parallel()
	partition := func(name string, groups ...string) *b.DeviceBuilder {
		return b.Device(name).Consumes("set", "memory", "1").Modify(func(d *resourceapi.Device) {
			d.ConsumesCounters[0].CompatibilityGroups = groups
		})
	}
	slices := []*b.SliceBuilder{
		b.Slice("counters").InPool("p", 1, 3).OnNode("a").Counters("set", "memory", "40"),
		b.Slice("devices").InPool("p", 1, 3).OnNode("a").Devices(
			partition("mig", "mig"), partition("vgpu", "vgpu"), partition("both", "mig", "vgpu"), partition("none"), b.Device("other")),
		b.Slice("elsewhere").InPool("p", 1, 3).OnNode("b").Devices(partition("mig-b", "mig")),
	}
	for name, test := range map[string]struct {
		held, plan []string
		want       bool
	}{
		"nothing in use":            {nil, []string{"mig"}, true},
		"one group":                 {[]string{"mig-b"}, []string{"mig"}, true},
		"a group in common":         {[]string{"both"}, []string{"vgpu"}, true},
		"no group in common":        {[]string{"mig-b"}, []string{"vgpu"}, false},
		"not with all of them":      {[]string{"both", "mig"}, []string{"vgpu"}, false},
		"one without groups":        {[]string{"mig"}, []string{"none"}, false},
		"others are without groups": {[]string{"none"}, []string{"mig"}, false},
		"within the plan":           {nil, []string{"mig", "vgpu"}, false},
		"drawing nothing":           {[]string{"mig"}, []string{"other"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := inventory.FromSlices(objectsOf(slices), inventory.Options{PartitionableDevices: true, CompatibilityGroups: true})
			l := ledger.New()
			l.Pools = func(id inventory.PoolID) *inventory.NodePool { return store.Pool(id).Everywhere() }
			if test.held != nil {
				refresh(l, "x", versioned(b.Claim("x").Allocated("p", test.held...), 1))
			}
			plan := b.Claim("late").Allocated("p", test.plan...)
			err := l.AddInFlight(ledger.RefTo(plan), "pod", plan.Status.Allocation)
			if test.want {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "no compatibility group in common with the devices that draw from counter set set")
			require.Zero(t, l.InFlightCount())
		})
	}
}

func objectsOf(builders []*b.SliceBuilder) []*resourceapi.ResourceSlice {
	var slices []*resourceapi.ResourceSlice
	for _, builder := range builders {
		slices = append(slices, builder.Obj())
	}
	return slices
}
