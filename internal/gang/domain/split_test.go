package domain

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

const clique = "gpu.example.com/clique" // of builder.Driver

// store has some slices.
func store(builders ...*builder.SliceBuilder) *inventory.Store {
	var published []*resourceapi.ResourceSlice
	for _, b := range builders {
		published = append(published, b.Obj())
	}
	return inventory.FromSlices(published, inventory.Options{PartitionableDevices: true})
}

func nodes(names ...string) (list []*v1.Node) {
	for _, name := range names {
		list = append(list, builder.Node(name))
	}
	return list
}

func TestSplitByLabel(t *testing.T) {
	t.Parallel()
	list := []*v1.Node{builder.Node("n0", "rack", "b"), builder.Node("n1"), builder.Node("n2", "rack", "a"), builder.Node("n3", "rack", "b"), builder.Node("n4", "rack", "")}
	none := func(*v1.Node) []*inventory.NodePool { panic("labels have nothing to do with pools") }
	require.Equal(t, []Domain{{"", []int{4}}, {"a", []int{2}}, {"b", []int{0, 3}}}, Split(Key{Label: "rack"}, list, none))
	require.Empty(t, Split(Key{Label: "row"}, list, none))
	require.Empty(t, Split(Key{}, list, none))
	require.Nil(t, Blocked(Key{Label: "rack"}, "a", store(builder.NodeSlice("n0", builder.Device("gpu").Attr("clique", "b"))).OnNode(list[0])))
}

// TestTooMany: many domains are fine as long as each node is in few of them.
func TestTooMany(t *testing.T) {
	t.Parallel()
	list := nodes("n0", "n1", "n2")
	shared := func(values int) *inventory.Store {
		pool := builder.Slice("shared").OnAllNodes()
		for i := range values {
			pool.Devices(builder.Device(fmt.Sprint("g", i)).Attr("clique", fmt.Sprint(i)))
		}
		return store(pool)
	}
	require.False(t, TooMany(Split(Key{Attribute: clique}, list, shared(100).OnNode), len(list)))
	require.True(t, TooMany(Split(Key{Attribute: clique}, list, shared(300).OnNode), len(list)))
	var racks []*v1.Node
	for i := range 1000 {
		racks = append(racks, builder.Node(fmt.Sprint("n", i), "rack", fmt.Sprint(i)))
	}
	require.False(t, TooMany(Split(Key{Label: "rack"}, racks, nil), len(racks)))
}

// Each case has the results of Split for nodes n0 to n2, and of Blocked for n0 and domain "a".
func TestByAttribute(t *testing.T) {
	t.Parallel()
	gpu := func(name string, value any) *builder.DeviceBuilder { return builder.Device(name).Attr("clique", value) }
	list := func(values ...string) any { return resourceapi.DeviceAttribute{StringValues: values} }
	id := func(pool string) inventory.PoolID { return inventory.PoolID{Driver: builder.Driver, Name: pool} }
	tests := map[string]struct {
		slices  []*builder.SliceBuilder
		want    []Domain
		blocked map[inventory.PoolID][]string
	}{
		"a node, a clique": {
			slices: []*builder.SliceBuilder{builder.NodeSlice("n0", gpu("g0", "a"), gpu("g1", "a")), builder.NodeSlice("n1", gpu("g0", "b")), builder.NodeSlice("n2", gpu("g0", "a"))},
			want:   []Domain{{"a", []int{0, 2}}, {"b", []int{1}}},
		},
		"a node in several": {
			slices:  []*builder.SliceBuilder{builder.NodeSlice("n0", gpu("g0", "a"), gpu("g1", "b"), gpu("g2", "a"), gpu("g3", "c"), builder.Device("nic"))},
			want:    []Domain{{"a", []int{0}}, {"b", []int{0}}, {"c", []int{0}}},
			blocked: map[inventory.PoolID][]string{id("n0"): {"g1", "g3"}},
		},
		"several pools of a node": {
			slices: []*builder.SliceBuilder{
				builder.Slice("n0-x").OnNode("n0").Devices(gpu("g0", "a")), builder.Slice("n0-y").OnNode("n0").Devices(gpu("g0", "a"), gpu("g1", "b")),
				builder.Slice("n0-z").OnNode("n0").Devices(gpu("g0", "b")),
			},
			want:    []Domain{{"a", []int{0}}, {"b", []int{0}}},
			blocked: map[inventory.PoolID][]string{id("n0-y"): {"g1"}, id("n0-z"): {"g0"}},
		},
		"lists": {
			slices:  []*builder.SliceBuilder{builder.NodeSlice("n0", gpu("g0", list("a", "b")), gpu("g1", list("b", "c")), gpu("g2", list("a")))},
			want:    []Domain{{"a", []int{0}}, {"b", []int{0}}, {"c", []int{0}}},
			blocked: map[inventory.PoolID][]string{id("n0"): {"g1"}},
		},
		"lists of other types": {
			slices: []*builder.SliceBuilder{
				builder.NodeSlice("n0", gpu("g0", resourceapi.DeviceAttribute{IntValues: []int64{-1, 2}}), gpu("g1", resourceapi.DeviceAttribute{BoolValues: []bool{true}})),
				builder.NodeSlice("n1", gpu("g0", resourceapi.DeviceAttribute{VersionValues: []string{"1.0.0"}}), gpu("g1", "a")),
			},
			want:    []Domain{{"-1", []int{0}}, {"1.0.0", []int{1}}, {"2", []int{0}}, {"a", []int{1}}, {"true", []int{0}}},
			blocked: map[inventory.PoolID][]string{id("n0"): {"g0", "g1"}},
		},
		"values of different types differ": {
			slices: []*builder.SliceBuilder{
				builder.NodeSlice("n0", gpu("g0", 7), gpu("g1", true), gpu("g2", builder.Version("1.2.3-beta"))),
				builder.NodeSlice("n1", gpu("g0", "7"), gpu("g1", "true"), gpu("g2", "1.2.3-beta"), gpu("g3", `"7"`)),
			},
			want: []Domain{
				{`"1.2.3-beta"`, []int{1}}, {`"7"`, []int{1}}, {`"\"7\""`, []int{1}}, {`"true"`, []int{1}},
				{"1.2.3-beta", []int{0}}, {"7", []int{0}}, {"true", []int{0}},
			},
			blocked: map[inventory.PoolID][]string{id("n0"): {"g0", "g1", "g2"}},
		},
		"full name before the short one": {
			slices: []*builder.SliceBuilder{builder.NodeSlice("n0", gpu("g0", "b").Attr(clique, "a"))},
			want:   []Domain{{"a", []int{0}}},
		},
		"of another driver": {
			slices: []*builder.SliceBuilder{
				builder.NodeSlice("n0", gpu("g0", "b")).OfDriver("nic.example.com"),
				builder.NodeSlice("n1", builder.Device("g0").Attr(clique, "a")).OfDriver("nic.example.com"),
			},
			want: []Domain{{"a", []int{1}}},
		},
		"unknown type": {
			slices: []*builder.SliceBuilder{builder.NodeSlice("n0", gpu("g0", resourceapi.DeviceAttribute{}), gpu("g1", "a"))},
			want:   []Domain{{"a", []int{0}}},
		},
		"a pool that is not complete": {
			slices: []*builder.SliceBuilder{builder.NodeSlice("n0", gpu("g0", "a")).Part(0, 2), builder.NodeSlice("n1", gpu("g0", "a"))},
			want:   []Domain{{"a", []int{1}}},
		},
		"what a node does not reach": {
			slices:  []*builder.SliceBuilder{builder.Slice("fabric").PerDevice().Devices(gpu("g0", "a").OnAllNodes(), gpu("g1", "b").OnNode("n1"), gpu("g2", "c").OnNode("n0"))},
			want:    []Domain{{"a", []int{0, 1, 2}}, {"b", []int{1}}, {"c", []int{0}}},
			blocked: map[inventory.PoolID][]string{id("fabric"): {"g2"}},
		},
		"nothing": {slices: []*builder.SliceBuilder{builder.NodeSlice("n0", builder.Device("g0"))}, want: []Domain{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, list := store(test.slices...), nodes("n0", "n1", "n2")
			key := Key{Attribute: clique}
			require.Equal(t, test.want, Split(key, list, s.OnNode))
			require.Equal(t, test.want, Split(key, list, s.OnNode), "remembered")
			require.Equal(t, test.blocked, Blocked(key, "a", s.OnNode(list[0])))
			requireWithin(t, test.blocked, s.OnNode(list[0]), Within(key, "a", s.OnNode(list[0])))
		})
	}
}

// requireWithin checks that exactly the given devices of a node are out of reach.
func requireWithin(t *testing.T, blocked map[inventory.PoolID][]string, before, after []*inventory.NodePool) {
	t.Helper()
	require.Len(t, after, len(before))
	for i, pool := range before {
		if len(blocked[pool.ID]) == 0 {
			require.Same(t, pool, after[i])
			continue
		}
		var missing []string
		for d := range pool.Reachable.All() {
			if !after[i].Reachable.Has(d) {
				missing = append(missing, pool.Devices[d].Name)
			}
		}
		require.Equal(t, blocked[pool.ID], missing)
		require.Equal(t, pool.Reachable.Len()-len(missing), after[i].Reachable.Len())
		require.Same(t, pool.Layout, after[i].Layout)
	}
}

func TestOneDeviceAndOnePool(t *testing.T) {
	t.Parallel()
	list := resourceapi.DeviceAttribute{StringValues: []string{"a", "b"}}
	s := store(
		builder.NodeSlice("n0", builder.Device("g0").Attr("clique", "a"), builder.Device("g1").Attr("clique", list), builder.Device("nic")),
		builder.NodeSlice("n1", builder.Device("g0").Attr("clique", "a")).Part(0, 2))
	whole, part := s.OnNode(builder.Node("n0"))[0], s.OnNode(builder.Node("n1"))[0]
	key := Key{Attribute: clique}
	require.Equal(t, []string{"a", "b"}, Names(key, &whole.Devices[1]))
	require.Empty(t, Names(key, &whole.Devices[2]))
	require.Nil(t, Names(Key{Label: "rack"}, &whole.Devices[0]))
	require.Equal(t, []int{0, 1}, slices.Collect(Members(key, "a", whole).All()))
	require.Equal(t, []int{1}, slices.Collect(Members(key, "b", whole).All()))
	require.Nil(t, Members(key, "c", whole))
	require.Nil(t, Members(Key{Label: "rack"}, "a", whole))
	require.Nil(t, Members(key, "a", part))
}

// The cache of attribute names is bounded, and nodes with the same devices share it.
func TestColumnsAreShared(t *testing.T) {
	t.Parallel()
	s := store(builder.NodeSlice("n0", builder.Device("g0").Attr("clique", "a")), builder.NodeSlice("n1", builder.Device("g0").Attr("clique", "a")))
	pool := func(node string) *inventory.NodePool { return s.OnNode(builder.Node(node))[0] }
	require.Same(t, columnOf(clique, pool("n0")), columnOf(clique, pool("n1")))
	for i := range 10 {
		columnOf(fmt.Sprint("gpu.example.com/x", i), pool("n0"))
	}
	known, found := pool("n1").Content.Others.Get(columnsKey{})
	require.True(t, found)
	recent := *known.(*columns).recent.Load()
	require.Len(t, recent, rememberedColumns)
	require.Equal(t, "gpu.example.com/x9", recent[0].attribute)
	require.Equal(t, "gpu.example.com/x6", recent[rememberedColumns-1].attribute)
}

func BenchmarkSplit(b *testing.B) {
	var slices []*builder.SliceBuilder
	var list []*v1.Node
	for i := range 5000 {
		name := fmt.Sprint("n", i)
		slice := builder.NodeSlice(name)
		for g := range 8 {
			slice.Devices(builder.Device(fmt.Sprint("gpu-", g)).Attr("uuid", fmt.Sprint(name, "-", g)).Attr("clique", fmt.Sprint("c", i/18)))
		}
		slices, list = append(slices, slice), append(list, builder.Node(name))
	}
	s := store(slices...)
	b.ReportAllocs()
	for b.Loop() {
		require.Len(b, Split(Key{Attribute: clique}, list, s.OnNode), 278)
	}
}
