package web

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

func tiles(t require.TestingT, raw []json.RawMessage) []Tile {
	all := make([]Tile, len(raw))
	for i := range raw {
		require.NoError(t, json.Unmarshal(raw[i], &all[i]))
	}
	return all
}

func TestTiles(t *testing.T) {
	t.Parallel()
	state := shown(t, objects()).State()
	require.Equal(t, []Layout{{Names: []string{"gpu-0", "gpu-1", "gpu-2", "gpu-3"}, Pools: []int{0, 0, 0, 0}}}, state.Layouts, "nodes with the same hardware have one layout")
	require.Equal(t, []Tile{
		{Name: "a", Pools: []string{"gpu.example.com/a"}, States: "afff", Tainted: []int{1}, Holders: map[int][]string{0: {"default/held"}}},
		{Name: "b", Pools: []string{"gpu.example.com/b"}, States: "ffff"},
	}, tiles(t, state.Tiles))
	require.Equal(t, Meta{
		Source: "a test", Published: 1, Classes: []string{b.Driver}, Attributes: []string{b.Driver + "/numa"}, Namespaces: []string{"default"},
		Waiting: []Waiting{{Pod: "default/waits"}}, Problems: []string{},
	}, state.Meta)
}

// Partitions are parts of their GPU, which is blocked while one of them is in use, and so are those that overlap with it.
func TestPartitionsAndShares(t *testing.T) {
	t.Parallel()
	state := shown(t, partitioned()).State()
	require.Len(t, state.Layouts, 1)
	require.Equal(t, []int{0, 0, 0, 0, 0, 0, 0, -1, -1}, state.Layouts[0].Parts, "what has counters for itself is no part")
	require.Equal(t, []Whole{{Name: "gpu", Device: 0}}, state.Layouts[0].Wholes)
	tile := tiles(t, state.Tiles)[0]
	require.Equal(t, "xfafffffs", tile.States)
	require.Equal(t, []int{50}, tile.WholeLevels)
	require.Equal(t, map[int]int{8: 38}, tile.Levels, "30 of 80 GiB")
}

func TestWhatCannotBeTold(t *testing.T) {
	t.Parallel()
	o := objects()
	o.Slices[1].Spec.Pool.ResourceSliceCount = 2
	o.Nodes[1].Spec.Unschedulable = true
	o.Claims = append(o.Claims, b.Claim("again", b.Request("gpu", b.Driver)).Allocated("a", "gpu-0"), b.Claim("lost", b.Request("gpu", b.Driver)).Allocated("a", "gpu-9"))
	o.Nodes = append(o.Nodes, machine("without"))
	state := shown(t, o).State()
	all := tiles(t, state.Tiles)
	assert.Equal(t, []int{0}, all[0].Conflicts)
	assert.Equal(t, "????", all[1].States)
	assert.True(t, all[1].Unready)
	assert.Contains(t, all[1].Problem, "pool gpu.example.com/b is incomplete")
	assert.Equal(t, 1, state.Meta.Without)
	require.Len(t, state.Meta.Problems, 2)
	assert.Equal(t, "device gpu.example.com/a/gpu-9 is not published, and held by default/lost", state.Meta.Problems[0])

	o = objects()
	o.Missing = []whatif.Missing{{Resource: "resourceclaims.resource.k8s.io", Why: "no right"}}
	all = tiles(t, shown(t, o).State().Tiles)
	assert.Equal(t, "a???", all[0].States, "without the right to read claims nobody knows what is free")
	assert.Equal(t, "it is not known who holds devices: no right", all[0].Problem)
}

// Devices for several nodes are on tiles of their own, after the nodes.
func TestPoolsForSeveralNodes(t *testing.T) {
	t.Parallel()
	o := objects()
	o.Slices = append(o.Slices, b.Slice("all").OnAllNodes().Devices(b.Devices("net-0")...).Obj())
	all := tiles(t, shown(t, o).State().Tiles)
	require.Len(t, all, 3)
	assert.Equal(t, "gpu.example.com/all", all[2].Name)
	assert.True(t, all[2].Shared)
	assert.False(t, all[2].Unready)
}

func TestDeltas(t *testing.T) {
	t.Parallel()
	o := objects()
	m := shown(t, o)
	deltas, more, ok := m.since(1)
	require.True(t, ok)
	require.Empty(t, deltas)
	show(t, m, o)
	_, _, ok = m.since(1)
	require.True(t, ok)
	require.EqualValues(t, 1, m.State().Version, "nothing is different")

	o.Claims = append(o.Claims[:1:1], b.Claim("five", b.Request("gpu", b.Driver).Count(5)).Obj(), b.Claim("more", b.Request("gpu", b.Driver)).Allocated("b", "gpu-3"))
	show(t, m, o)
	<-more
	deltas, _, ok = m.since(1)
	require.True(t, ok)
	require.Len(t, deltas, 1)
	var delta Delta
	require.NoError(t, json.Unmarshal(deltas[0], &delta))
	require.EqualValues(t, 2, delta.Version)
	require.Nil(t, delta.Meta)
	require.Empty(t, delta.Layouts)
	require.Equal(t, []Tile{{Name: "b", Pools: []string{"gpu.example.com/b"}, States: "fffa", Holders: map[int][]string{3: {"default/more"}}}}, tiles(t, delta.Tiles))

	o.Slices, o.Nodes = o.Slices[:1], o.Nodes[:1]
	o.Slices = append(o.Slices, b.NodeSlice("c", b.Devices("other")...).Obj())
	show(t, m, o)
	deltas, _, _ = m.since(2)
	delta = Delta{}
	require.NoError(t, json.Unmarshal(deltas[0], &delta))
	require.Equal(t, []string{"b"}, delta.Gone)
	require.Len(t, delta.Layouts, 1)
	require.EqualValues(t, 2, delta.Meta.Published)
	require.Equal(t, 1, tiles(t, delta.Tiles)[0].Layout)
}

// A browser that is too far behind, or has a version of another server, must read the whole state again.
func TestVersionsThatAreNotKept(t *testing.T) {
	t.Parallel()
	o := objects()
	m := shown(t, o)
	for i := range deltasKept + 1 {
		o.Nodes = []*v1.Node{machine("a"), machine("b")}
		o.Nodes[0].Spec.Unschedulable = i%2 == 0
		show(t, m, o)
	}
	require.EqualValues(t, deltasKept+2, m.State().Version)
	for version, kept := range map[uint64]bool{1: false, 2: true, deltasKept + 2: true, deltasKept + 3: false} {
		_, _, ok := m.since(version)
		assert.Equal(t, kept, ok, "version %d", version)
	}
}

// The number of layouts is bounded: beyond it they are renumbered, and browsers read the whole state again.
func TestLayoutsHaveABound(t *testing.T) {
	t.Parallel()
	o := objects()
	m := NewMap("a test")
	m.layoutsAtMost = 3
	show(t, m, o)
	for i := range 10 {
		before := m.State()
		o.Slices[1] = b.NodeSlice("b", b.NumberedDevices("gpu", i+1)...).Obj()
		show(t, m, o)
		state := m.State()
		require.LessOrEqual(t, len(state.Layouts), 4+2)
		last := tiles(t, state.Tiles)[1]
		require.Len(t, state.Layouts[last.Layout].Names, i+1)
		require.Len(t, last.States, i+1)
		deltas, _, ok := m.since(before.Version)
		require.Equal(t, len(before.Layouts) <= 3, ok)
		if ok {
			require.Len(t, deltas, 1)
		}
	}
}
