package facts_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/kubectl/facts"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

func factsOf(o whatif.Objects) *facts.Facts {
	return facts.Of(whatif.New(o, whatif.Options{}))
}

// reserved has a claim reserved for consumers of the core API by name.
func reserved(claim *resourceapi.ResourceClaim, pods ...string) *resourceapi.ResourceClaim {
	for _, name := range pods {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: name, UID: types.UID("uid-pod-" + name)})
	}
	return claim
}

func share(claim *resourceapi.ResourceClaim, id string) *resourceapi.ResourceClaim {
	claim.Status.Allocation.Devices.Results[0].ShareID = ptr.To(types.UID(id))
	return claim
}

// TestStates: the first that is true counts.
func TestStates(t *testing.T) {
	tainted := func(name string) *b.DeviceBuilder {
		return b.Device(name).Shared().Taint("bad", resourceapi.DeviceTaintEffectNoExecute)
	}
	o := whatif.Objects{
		Nodes: []*v1.Node{b.Node("n")},
		Slices: []*resourceapi.ResourceSlice{
			b.NodeSlice("n", b.Device("free"), b.Device("noted").Taint("note", resourceapi.DeviceTaintEffectNone), tainted("tainted"), tainted("held"), tainted("shared"),
				b.Device("part").Consumes("set", "size", "1"), b.Device("half").Consumes("set", "size", "1")).Part(0, 2).Obj(),
			b.NodeSlice("n").Counters("set", "size", "1").Part(1, 2).Obj(),
			b.Slice("torn").OnNode("n").Devices(tainted("tainted"), b.Device("lost"), b.Device("held")).Part(0, 3).Obj(),
		},
		Claims: []*resourceapi.ResourceClaim{
			b.Claim("a").Allocated("n", "held", "part"), share(b.Claim("b").Allocated("n", "shared"), "1"), b.Claim("c").Allocated("torn", "held"),
		},
	}
	states := make(map[string]facts.State)
	for _, device := range factsOf(o).Devices() {
		states[device.Pool+"/"+device.DeviceID.Device] = device.State
		require.Equal(t, device.State == facts.Unavailable, device.Why != "", device.DeviceID)
	}
	require.Equal(t, map[string]facts.State{
		"n/free": facts.Free, "n/noted": facts.Free, "n/tainted": facts.Tainted, "n/held": facts.Allocated, "n/shared": facts.Shared,
		"n/part": facts.Allocated, "n/half": facts.Unavailable,
		"torn/tainted": facts.Tainted, "torn/lost": facts.Unavailable, "torn/held": facts.Allocated,
	}, states)
	overview := factsOf(o).Overview("")
	require.Equal(t, facts.Counts{Devices: 10, Free: 2, Allocated: 3, Shared: 1, Tainted: 2, Unavailable: 2}, overview.Drivers[0].Counts)
	require.Len(t, overview.Summaries, 1)
	require.Len(t, overview.Summaries[0].Units, 9, "both partitions are one")
	require.Empty(t, factsOf(o).Problems().Unpublished, "a pool that is not complete has its devices all the same")
}

// TestOnePoolForManyNodes: each node has its own devices, and those for all.
func TestOnePoolForManyNodes(t *testing.T) {
	slice := b.Slice("pool").PerDevice().Devices(b.Device("a").OnNode("n-1"), b.Device("b").OnNode("n-2"), b.Device("c").OnAllNodes(), b.Device("d").OnLabeled("rack", "1")).Obj()
	all := factsOf(whatif.Objects{Nodes: []*v1.Node{b.Node("n-1", "rack", "1"), b.Node("n-2")}, Slices: []*resourceapi.ResourceSlice{slice}})
	names := func(node string) (names []string) {
		devices, _, err := all.Select(t.Context(), facts.Selection{Node: node})
		require.NoError(t, err)
		for _, device := range devices {
			names = append(names, device.DeviceID.Device)
		}
		return names
	}
	require.Equal(t, []string{"a", "c", "d"}, names("n-1"))
	require.Equal(t, []string{"b", "c"}, names("n-2"))
	require.Empty(t, names("n-3"))
	var places []string
	for _, summary := range all.Overview("").Summaries {
		places = append(places, fmt.Sprintf("%s%s: %d", summary.Node, summary.Pool, summary.Devices))
	}
	require.Equal(t, []string{"n-1: 1", "n-2: 1", "pool: 2"}, places)
	require.Equal(t, "rack=1", all.Devices()[3].Reach.String())
	require.True(t, all.Overview("").Pools[0].Shared)
}

// TestUnused: a claim counts as used while a consumer may need it, or while consumers are unknown.
func TestUnused(t *testing.T) {
	group := func(name string) *resourceapi.ResourceClaim {
		claim := b.Claim("of-"+name).Allocated("n", "gpu")
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: name, UID: "g"}}
		return claim
	}
	other := b.Claim("other").Allocated("n", "gpu")
	other.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{APIGroup: "example.com", Resource: "jobs", Name: "x", UID: "x"}}
	o := whatif.Objects{
		Claims: []*resourceapi.ResourceClaim{
			reserved(b.Claim("by-nobody").Allocated("n", "gpu")), reserved(b.Claim("by-running").Allocated("n", "gpu"), "gone", "runs"),
			reserved(b.Claim("by-gone").Allocated("n", "gpu"), "gone"), reserved(b.Claim("by-ended").Allocated("n", "gpu"), "ended"),
			group("empty"), group("full"), other, b.Claim("open").Obj(),
		},
		Pods: []*v1.Pod{
			b.Pod("runs"), b.Pod("ended", func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }),
			b.Pod("member", func(p *v1.Pod) { p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: ptr.To("full")} }),
		},
	}
	unused := func(o whatif.Objects) (names []string) {
		for _, claim := range factsOf(o).Problems().Unused {
			names = append(names, claim.Name)
		}
		return names
	}
	require.Equal(t, []string{"by-ended", "by-gone", "by-nobody", "of-empty"}, unused(o))
	require.Equal(t, []string{"member"}, podNames(factsOf(o), "of-full"))
	o.Pods, o.Missing = nil, []whatif.Missing{{Resource: "pods"}}
	require.Equal(t, []string{"by-nobody"}, unused(o))
}

func podNames(f *facts.Facts, claim string) (names []string) {
	for _, pod := range f.PodsOf(f.Claim(b.Namespace, claim)) {
		names = append(names, pod.Name)
	}
	return names
}

// TestTwice: shares of a device that another claim holds exclusively, and the same share in two claims.
func TestTwice(t *testing.T) {
	held := func(claims ...*resourceapi.ResourceClaim) int {
		o := whatif.Objects{
			Slices: []*resourceapi.ResourceSlice{b.NodeSlice("n", b.Device("nic").Shared()).Obj()}, Claims: claims,
		}
		return len(factsOf(o).Problems().Twice)
	}
	claim := func(name string) *resourceapi.ResourceClaim { return b.Claim(name).Allocated("n", "nic") }
	admin := claim("admin")
	admin.Status.Allocation.Devices.Results[0].AdminAccess = ptr.To(true)
	require.Zero(t, held(claim("a"), admin))
	require.Zero(t, held(share(claim("a"), "1"), share(claim("b"), "2")))
	require.Equal(t, 1, held(claim("a"), claim("b")))
	require.Equal(t, 1, held(claim("a"), share(claim("b"), "2")))
	require.Equal(t, 1, held(share(claim("a"), "1"), share(claim("b"), "1")))
}

// TestFind: names are looked for as they are given.
func TestFind(t *testing.T) {
	facts := factsOf(whatif.Objects{Slices: []*resourceapi.ResourceSlice{
		b.NodeSlice("n-1", b.Device("gpu")).Obj(), b.NodeSlice("n-2", b.Device("gpu")).Obj(), b.NodeSlice("n-2", b.Device("gpu")).OfDriver("other").Modify(func(s *resourceapi.ResourceSlice) { s.Name = "other" }).Obj(),
	}})
	for name, want := range map[string]int{"gpu": 3, "n-1/gpu": 1, "n-2/gpu": 2, "other/n-2/gpu": 1, "other/n-1/gpu": 0, "x": 0, "a/b/c/d": 0} {
		require.Len(t, facts.Find(name), want, name)
	}
}
