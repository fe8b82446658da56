package inventory_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

var all = inventory.Options{PartitionableDevices: true, CompatibilityGroups: true}

func slicesOf(builders ...*b.SliceBuilder) []*resourceapi.ResourceSlice {
	var result []*resourceapi.ResourceSlice
	for _, builder := range builders {
		result = append(result, builder.Obj())
	}
	return result
}

// summary describes what a node sees of a pool in one line a pool.
type summary struct {
	Pool    string
	State   string
	Devices []string // reachable ones only
}

func summarize(pools []*inventory.NodePool) []summary {
	var result []summary
	for _, pool := range pools {
		s := summary{Pool: pool.ID.String(), State: pool.State.String()}
		for i := range pool.Reachable.All() {
			s.Devices = append(s.Devices, pool.Devices[i].Name)
		}
		result = append(result, s)
	}
	return result
}

func TestOnNode(t *testing.T) {
	gpus := b.Devices("gpu-0", "gpu-1")
	pool := func(name, state string, devices ...string) summary {
		return summary{Pool: b.Driver + "/" + name, State: state, Devices: devices}
	}
	tests := map[string]struct {
		slices []*b.SliceBuilder
		node   *v1.Node
		opts   *inventory.Options
		want   []summary
	}{
		"a node sees its own pool": {
			slices: []*b.SliceBuilder{b.NodeSlice("a", gpus...), b.NodeSlice("b", gpus...)},
			want:   []summary{pool("a", "complete", "gpu-0", "gpu-1")},
		},
		"a pool of which nobody knows how many slices it has is what there is": {
			slices: []*b.SliceBuilder{
				b.Slice("first").InPool("a", 1, inventory.AnyCount).OnNode("a").Devices(b.Device("gpu-0")),
				b.Slice("second").InPool("a", 1, inventory.AnyCount).OnNode("a").Devices(b.Device("gpu-1")),
			},
			want: []summary{pool("a", "complete", "gpu-0", "gpu-1")},
		},
		"pools are sorted by driver and name": {
			slices: []*b.SliceBuilder{
				b.Slice("z").OnAllNodes().Devices(b.Device("d")),
				b.Slice("y").OnNode("a").Devices(b.Device("d")),
				b.Slice("x").OnAllNodes().OfDriver("zz.example.com").Devices(b.Device("d")),
				b.Slice("w").OnLabeled("zone", "1").Devices(b.Device("d")),
			},
			node: b.Node("a", "zone", "1"),
			want: []summary{pool("w", "complete", "d"), pool("y", "complete", "d"), pool("z", "complete", "d"),
				{Pool: "zz.example.com/x", State: "complete", Devices: []string{"d"}}},
		},
		"a node selector that does not match": {
			slices: []*b.SliceBuilder{b.Slice("w").OnLabeled("zone", "1").Devices(gpus...)},
			node:   b.Node("a", "zone", "2"),
		},
		"pools with binding conditions come last": {
			slices: []*b.SliceBuilder{
				b.Slice("p1").OnNode("a").Devices(b.Device("d").BindingCondition("attached")),
				b.Slice("p2").OnNode("a").Devices(b.Device("d")),
			},
			want: []summary{pool("p2", "complete", "d"), pool("p1", "complete", "d")},
		},
		"slices of a pool are sorted by name": {
			slices: []*b.SliceBuilder{
				b.Slice("s2").InPool("p", 1, 2).OnNode("a").Devices(b.Device("one")),
				b.Slice("s1").InPool("p", 1, 2).OnNode("a").Devices(b.Device("two")),
			},
			want: []summary{pool("p", "complete", "two", "one")},
		},
		"a slice is missing": {
			slices: []*b.SliceBuilder{b.Slice("s1").InPool("p", 1, 2).OnNode("a").Devices(gpus...)},
			want:   []summary{pool("p", "incomplete")},
		},
		"slices for other nodes make a pool complete": {
			slices: []*b.SliceBuilder{
				b.Slice("s1").InPool("p", 1, 2).OnNode("a").Devices(b.Device("gpu-0")),
				b.Slice("s2").InPool("p", 1, 2).OnNode("b").Devices(b.Device("gpu-1")),
			},
			want: []summary{pool("p", "complete", "gpu-0")},
		},
		"a newer generation replaces an older one": {
			slices: []*b.SliceBuilder{
				b.Slice("s1").InPool("p", 1, 1).OnNode("a").Devices(b.Device("old")),
				b.Slice("s2").InPool("p", 2, 1).OnNode("a").Devices(b.Device("new")),
			},
			want: []summary{pool("p", "complete", "new")},
		},
		"a newer generation that is half published": {
			slices: []*b.SliceBuilder{
				b.Slice("s1").InPool("p", 1, 1).OnNode("a").Devices(b.Device("old")),
				b.Slice("s2").InPool("p", 2, 2).OnNode("a").Devices(b.Device("new")),
			},
			want: []summary{pool("p", "incomplete")},
		},
		"an incomplete old generation is ignored when a newer one is for other nodes": {
			slices: []*b.SliceBuilder{
				b.Slice("s1").InPool("p", 1, 2).OnNode("a").Devices(b.Device("old")),
				b.Slice("s2").InPool("p", 2, 1).OnNode("b").Devices(b.Device("new")),
			},
		},
		"a device name that is not unique": {
			slices: []*b.SliceBuilder{
				b.Slice("s1").InPool("p", 1, 2).OnNode("a").Devices(gpus...),
				b.Slice("s2").InPool("p", 1, 2).OnNode("a").Devices(b.Device("gpu-1")),
			},
			want: []summary{pool("p", "invalid")},
		},
		"per-device node selection": {
			slices: []*b.SliceBuilder{b.Slice("p").PerDevice().Devices(
				b.Device("here").OnNode("a"), b.Device("there").OnNode("b"),
				b.Device("everywhere").OnAllNodes(), b.Device("labeled").OnLabeled("zone", "1"))},
			node: b.Node("a", "zone", "1"),
			want: []summary{pool("p", "complete", "here", "everywhere", "labeled")},
		},
		"per-device node selection with nothing for the node": {
			slices: []*b.SliceBuilder{b.Slice("p").PerDevice().Devices(b.Device("there").OnNode("b"))},
		},
		"per-device node selection is ignored without the feature": {
			slices: []*b.SliceBuilder{b.Slice("p").PerDevice().Devices(b.Device("here").OnNode("a"))},
			opts:   &inventory.Options{},
		},
		"counters in a slice of their own": {
			slices: []*b.SliceBuilder{
				b.Slice("s1").InPool("p", 1, 2).OnNode("a").Counters("gpu-0", "memory", "40Gi"),
				b.Slice("s2").InPool("p", 1, 2).OnNode("a").Devices(b.Device("d").Consumes("gpu-0", "memory", "10Gi")),
			},
			want: []summary{pool("p", "complete", "d")},
		},
		"without the feature a slice with counters is missing": {
			slices: []*b.SliceBuilder{
				b.Slice("s1").InPool("p", 1, 3).OnNode("a").Counters("gpu-0", "memory", "40Gi"),
				b.Slice("s2").InPool("p", 1, 3).OnNode("a").Devices(b.Device("d")),
			},
			opts: &inventory.Options{CompatibilityGroups: true},
			want: []summary{pool("p", "incomplete")},
		},
		"a counter set that does not exist": {
			slices: []*b.SliceBuilder{b.NodeSlice("a", b.Device("d").Consumes("gpu-0", "memory", "10Gi"))},
			want:   []summary{pool("a", "invalid")},
		},
		"a counter that does not exist": {
			slices: []*b.SliceBuilder{
				b.Slice("s1").InPool("p", 1, 2).OnNode("a").Counters("gpu-0", "memory", "40Gi"),
				b.Slice("s2").InPool("p", 1, 2).OnNode("a").Devices(b.Device("d").Consumes("gpu-0", "cores", "1")),
			},
			want: []summary{pool("p", "invalid")},
		},
		"a counter set that is defined twice": {
			slices: []*b.SliceBuilder{
				b.Slice("s1").InPool("p", 1, 2).OnNode("a").Counters("gpu-0", "memory", "40Gi"),
				b.Slice("s2").InPool("p", 1, 2).OnNode("a").Counters("gpu-0", "memory", "40Gi"),
			},
			want: []summary{pool("p", "invalid")},
		},
		"compatibility groups without the feature": {
			slices: []*b.SliceBuilder{
				b.Slice("s1").InPool("p", 1, 2).OnNode("a").Devices(b.Device("d").Modify(func(d *resourceapi.Device) {
					d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "c", CompatibilityGroups: []string{"g"}}}
				})),
				b.Slice("s2").InPool("p", 1, 2).OnNode("a").Devices(b.Device("e")),
			},
			opts: &inventory.Options{PartitionableDevices: true},
			want: []summary{pool("p", "incomplete")},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			node, opts := tc.node, all
			if node == nil {
				node = b.Node("a")
			}
			if tc.opts != nil {
				opts = *tc.opts
			}
			store := inventory.FromSlices(slicesOf(tc.slices...), opts)
			require.Equal(t, tc.want, summarize(store.OnNode(node)))
		})
	}
}

func TestMalformedNodeSelectorSpoilsOnlyItsPool(t *testing.T) {
	broken := b.Slice("broken").Devices(b.Device("d")).Obj()
	broken.Spec.NodeSelector = b.NodeSelector("zone", "1")
	broken.Spec.NodeSelector.NodeSelectorTerms[0].MatchExpressions[0].Operator = "Nonsense"
	store := inventory.FromSlices([]*resourceapi.ResourceSlice{broken, b.NodeSlice("a", b.Device("d")).Obj()}, all)

	pools := store.OnNode(b.Node("a"))
	require.Equal(t, []summary{
		{Pool: b.Driver + "/a", State: "complete", Devices: []string{"d"}},
		{Pool: b.Driver + "/broken", State: "invalid"},
	}, summarize(pools))
	require.Contains(t, pools[1].Reason, "slice broken: node selector cannot be parsed")
}

func TestNodesThatSeeTheSameShareAView(t *testing.T) {
	store := inventory.FromSlices(slicesOf(
		b.Slice("labeled").InPool("p", 1, 2).OnLabeled("zone", "1").Devices(b.Device("x")),
		b.Slice("everywhere").InPool("p", 1, 2).OnAllNodes().Devices(b.Device("y")),
	), all)
	id := inventory.PoolID{Driver: b.Driver, Name: "p"}
	view := func(node *v1.Node) *inventory.NodePool { return store.Pool(id).OnNode(node) }
	require.Same(t, view(b.Node("a", "zone", "1")), view(b.Node("b", "zone", "1")))
	require.NotSame(t, view(b.Node("a", "zone", "1")), view(b.Node("c")))
	require.Len(t, view(b.Node("a", "zone", "1")).Devices, 2)
	require.Len(t, view(b.Node("c")).Devices, 1)
	require.Len(t, slices.Collect(view(b.Node("c")).Elsewhere()), 1)
}

// TestElsewhere: the devices of slices for other nodes come in the order of the pool, which
// in a snapshot is that of the list. Slices with counters for other nodes have none.
func TestElsewhere(t *testing.T) {
	list := slicesOf(
		b.Slice("z").InPool("p", 1, 4).OnNode("a").Devices(b.Device("z")),
		b.Slice("counters").InPool("p", 1, 4).OnNode("b").Counters("set", "memory", "8Gi"),
		b.Slice("m").InPool("p", 1, 4).OnNode("m").Devices(b.Device("m")),
		b.Slice("a").InPool("p", 1, 4).OnNode("b").Devices(b.Device("a")),
	)
	elsewhere := func(pools []*inventory.NodePool) (names []string) {
		require.Len(t, pools, 1)
		for device := range pools[0].Elsewhere() {
			names = append(names, device.Name)
		}
		return names
	}
	require.Equal(t, []string{"a", "z"}, elsewhere(inventory.FromSlices(list, all).OnNode(b.Node("m"))))
	require.Equal(t, []string{"z", "a"}, elsewhere(inventory.NewKnown(all).NewSnapshot(list).OnNode(b.Node("m"))))
}

func TestTaintRules(t *testing.T) {
	published := b.NodeSlice("a",
		b.Device("gpu-0").Taint("own", resourceapi.DeviceTaintEffectNoSchedule), b.Device("gpu-1")).Obj()
	before := published.DeepCopy()
	store := inventory.FromSlices([]*resourceapi.ResourceSlice{published}, all)
	rule := func(name string, selector *resourceapi.DeviceTaintSelector) *resourceapi.DeviceTaintRule {
		r := &resourceapi.DeviceTaintRule{}
		r.Name = name
		r.Spec.DeviceSelector = selector
		r.Spec.Taint = resourceapi.DeviceTaint{Key: name, Effect: resourceapi.DeviceTaintEffectNoExecute}
		return r
	}
	taints := func() map[string][]string {
		result := map[string][]string{}
		for _, device := range store.OnNode(b.Node("a"))[0].Devices {
			for _, taint := range device.Taints {
				result[device.Name] = append(result[device.Name], taint.Key)
			}
		}
		return result
	}
	var applied []*resourceapi.DeviceTaintRule
	apply := func(rules ...*resourceapi.DeviceTaintRule) {
		for _, rule := range applied {
			store.RefreshTaintRule(rule.Name, func() *resourceapi.DeviceTaintRule { return nil })
		}
		for _, rule := range rules {
			store.RefreshTaintRule(rule.Name, func() *resourceapi.DeviceTaintRule { return rule })
		}
		applied = rules
	}
	view := func() *inventory.NodePool { return store.OnNode(b.Node("a"))[0] }

	require.Equal(t, map[string][]string{"gpu-0": {"own"}}, taints())
	unchanged := view()
	apply(rule("elsewhere", &resourceapi.DeviceTaintSelector{Pool: ptr.To("b")}), rule("nothing", nil))
	require.Same(t, unchanged, view(), "rules for others must not cost a new version of the pool")

	apply(
		rule("z-driver", &resourceapi.DeviceTaintSelector{Driver: ptr.To(b.Driver)}),
		rule("device", &resourceapi.DeviceTaintSelector{Pool: ptr.To("a"), Device: ptr.To("gpu-1")}),
	)
	require.Equal(t, map[string][]string{"gpu-0": {"own", "z-driver"}, "gpu-1": {"device", "z-driver"}}, taints())

	tainted := view()
	for _, rule := range applied {
		reported := rule.DeepCopy()
		reported.Status.Conditions = []metav1.Condition{{Type: "EvictionInProgress"}}
		store.RefreshTaintRule(rule.Name, func() *resourceapi.DeviceTaintRule { return reported })
	}
	require.Same(t, tainted, view(), "what a controller reports about a rule must not cost anything")
	elsewhere := rule("z-driver", &resourceapi.DeviceTaintSelector{Driver: ptr.To("another.example.com")})
	store.RefreshTaintRule("z-driver", func() *resourceapi.DeviceTaintRule { return elsewhere })
	require.Equal(t, map[string][]string{"gpu-0": {"own"}, "gpu-1": {"device"}}, taints())
	apply()
	require.Equal(t, map[string][]string{"gpu-0": {"own"}}, taints())
	require.Equal(t, before, published, "published slices are shared and must not change")
}

func TestEverywhere(t *testing.T) {
	store := inventory.FromSlices(slicesOf(
		b.Slice("s1").InPool("p", 2, 2).OnNode("a").Devices(b.Device("x")),
		b.Slice("s2").InPool("p", 2, 2).PerDevice().Devices(b.Device("y").OnNode("b"), b.Device("z").OnNode("c")),
		b.Slice("old").InPool("p", 1, 1).OnNode("d").Devices(b.Device("old")),
	), all)
	pool := store.Pool(inventory.PoolID{Driver: b.Driver, Name: "p"})
	require.Equal(t, []summary{{Pool: b.Driver + "/p", State: "complete", Devices: []string{"x", "y", "z"}}},
		summarize([]*inventory.NodePool{pool.Everywhere()}))
	require.Same(t, pool.Everywhere(), pool.Everywhere())

	unfinished := inventory.FromSlices(slicesOf(b.Slice("s1").InPool("p", 1, 2).OnNode("a").Devices(b.Device("x"))), all)
	require.Equal(t, []summary{{Pool: b.Driver + "/p", State: "incomplete", Devices: []string{"x"}}},
		summarize([]*inventory.NodePool{unfinished.Pool(inventory.PoolID{Driver: b.Driver, Name: "p"}).Everywhere()}))

	ignored := inventory.FromSlices(slicesOf(b.Slice("p").PerDevice().Devices(b.Device("y").OnNode("b"))), inventory.Options{})
	require.Equal(t, inventory.Incomplete, ignored.Pool(inventory.PoolID{Driver: b.Driver, Name: "p"}).Everywhere().State)
}
