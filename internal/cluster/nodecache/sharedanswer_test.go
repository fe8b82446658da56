package nodecache_test

import (
	"fmt"
	"math/rand"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/nodecache"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// racks is a cluster with nodes in racks. Each rack has a pool that its nodes reach, and some nodes
// have pools of their own.
type racks struct {
	*cluster
	names []string
	looks atomic.Int64
}

func newRacks(nodes, perRack, devices int) *racks {
	r := &racks{cluster: newCluster(0, 0)}
	r.index = nodecache.New(r.store, r.ledger, &r.rooms, func(name string) *v1.Node { r.looks.Add(1); return r.nodes[name] })
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		r.names = append(r.names, name)
		r.inRack(name, i/perRack)
		r.publishRack(i/perRack, devices)
	}
	r.snapshot()
	return r
}

// inRack makes or moves a node.
func (r *racks) inRack(name string, rack int) {
	node := b.Node(name)
	node.Labels = map[string]string{"rack": fmt.Sprint(rack)}
	r.nodes[name] = node
	r.index.NodeChanged(name)
}

func (r *racks) publishRack(rack, devices int) {
	name := fmt.Sprintf("rack%d", rack)
	var slice *resourceapi.ResourceSlice
	if devices > 0 {
		slice = b.Slice(name).InPool(name, 1, 1).OnLabeled("rack", fmt.Sprint(rack)).Devices(b.NumberedDevices("seat", devices)...).Obj()
	}
	r.store.RefreshSlice(name, func() *resourceapi.ResourceSlice { return slice })
}

func (r *racks) snapshot() {
	var infos []fwk.NodeInfo
	for _, name := range r.names {
		if r.nodes[name] != nil {
			info := framework.NewNodeInfo()
			info.SetNode(r.nodes[name])
			infos = append(infos, info)
		}
	}
	r.rooms.Follow(infos, false)
}

func (r *racks) find(t *testing.T, count int64) *nodecache.Answer {
	t.Helper()
	a := r.index.Find(t.Context(), r.question(count))
	require.NotNil(t, a)
	return a
}

// TestRacks: nodes that see the same are judged together, and only those of a rack in which something changed again.
func TestRacks(t *testing.T) {
	r := newRacks(200, 50, 2)
	a := r.find(t, 2)
	require.True(t, a.IsShared())
	for range 10 {
		a = r.find(t, 2)
	}
	names, ok := a.Names(200)
	require.True(t, ok)
	require.Len(t, names, 200)
	r.hold("c", "rack1", "seat-0")
	r.looks.Store(0)
	names, ok = r.find(t, 2).Names(200)
	require.True(t, ok)
	require.Len(t, names, 150)
	require.EqualValues(t, 1, r.looks.Load(), "one node of the rack")
	require.False(t, a.Has("n50"))
	require.True(t, a.Has("n49"))
}

// TestSharedPoolsComeAndGo: a task is one or the other as pools come and go.
func TestSharedPoolsComeAndGo(t *testing.T) {
	c := newCluster(1, 1)
	shared := b.Slice("shared").OnAllNodes().Devices(b.Device("seat")).Obj()
	require.False(t, c.index.Find(t.Context(), c.question(1)).IsShared())
	c.store.RefreshSlice("shared", func() *resourceapi.ResourceSlice { return shared })
	a := c.index.Find(t.Context(), c.question(2))
	require.True(t, a.IsShared())
	require.True(t, a.Has("n0"), "one of its own, and the one that any node can use")
	require.True(t, c.index.Find(t.Context(), c.question(1)).IsShared())
	c.store.RefreshSlice("shared", func() *resourceapi.ResourceSlice { return nil })
	require.Equal(t, []string{"n0"}, c.found(t, 1))
	require.Empty(t, c.found(t, 2))
}

// TestTiedIsTrue changes things at random and compares all that an answer says with a look at each node.
func TestTiedIsTrue(t *testing.T) {
	const nodes, perRack = 24, 6
	rng := rand.New(rand.NewSource(3))
	r := newRacks(nodes, perRack, 2)
	r.index.Enough, r.index.AtOnce, r.index.Growth = 10, 4, 4
	for range 2_000 {
		for range rng.Intn(4) {
			r.changeAnything(rng, r.names[rng.Intn(nodes)], rng.Intn(nodes/perRack))
		}
		count := int64(1 + rng.Intn(3))
		a := r.find(t, count)
		names, complete := a.Names(1000)
		fitting := 0
		for _, name := range r.names {
			n := r.nodes[name]
			if n == nil {
				require.False(t, a.Has(name))
				continue
			}
			outcome, err := r.task(count).Check(t.Context(), allocator.NodeView{Node: n, Pools: r.store.OnNode(n), Usage: r.ledger})
			require.NoError(t, err)
			fits := outcome.Fits()
			outcome.Release()
			if fits {
				fitting++
			}
			require.False(t, a.Has(name) && !fits, "%s, count %d", name, count)
			if complete && a.IsShared() {
				require.Equal(t, fits, names.Has(name), "%s, count %d", name, count)
			}
		}
		if a.IsShared() && fitting < r.index.Enough {
			require.True(t, complete, "if there are few, all of them are known")
		}
	}
}

func (r *racks) changeAnything(rng *rand.Rand, node string, rack int) {
	pool, device := fmt.Sprintf("rack%d", rack), fmt.Sprintf("seat-%d", rng.Intn(2))
	switch rng.Intn(8) {
	case 0, 1:
		r.hold(pool+device, pool, device)
	case 2, 3:
		r.free(pool + device)
	case 4:
		if r.nodes[node] != nil {
			r.inRack(node, rack)
			r.snapshot()
		}
	case 5:
		if r.nodes[node] == nil {
			r.inRack(node, rack)
		} else {
			delete(r.nodes, node)
			r.index.NodeChanged(node)
		}
		r.snapshot()
	case 6:
		r.publish(node, rng.Intn(3))
	case 7:
		if rng.Intn(4) == 0 {
			r.publishRack(rack, 1+rng.Intn(3))
		}
	}
}

// TestOnNodeAfterAnything: a node's view equals its view in a new store with the same slices.
func TestOnNodeAfterAnything(t *testing.T) {
	const nodes, perRack = 12, 4
	rng := rand.New(rand.NewSource(4))
	r := newRacks(nodes, perRack, 2)
	for range 2_000 {
		r.changeAnything(rng, r.names[rng.Intn(nodes)], rng.Intn(nodes/perRack))
		name := r.names[rng.Intn(nodes)]
		node := r.nodes[name]
		if node == nil {
			continue
		}
		var ids []string
		for _, pool := range r.store.OnNode(node) {
			ids = append(ids, fmt.Sprint(pool.ID, len(pool.Devices)))
		}
		var want []string
		for pool := range r.store.All() {
			if view := pool.OnNode(node); view != nil {
				want = append(want, fmt.Sprint(view.ID, len(view.Devices)))
			}
		}
		slices.Sort(want)
		require.Equal(t, want, ids)
	}
}
