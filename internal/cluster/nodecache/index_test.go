package nodecache_test

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/nodecache"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/noderesources"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// classes is a DeviceClassLister.
type classes map[string]*resourceapi.DeviceClass

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := c[name]; class != nil {
		return class, nil
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclasses"), name)
}

func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	return slices.Collect(maps.Values(c)), nil
}

// cluster holds the sources that an index follows.
type cluster struct {
	store  *inventory.Store
	ledger *ledger.Ledger
	nodes  map[string]*v1.Node
	rooms  noderesources.Free
	index  *nodecache.Index
	solver *allocator.Solver
}

func newCluster(nodes, devices int) *cluster {
	features := structured.Features{PartitionableDevices: true, PrioritizedList: true}
	c := &cluster{
		store: inventory.NewStore(allocator.InventoryOptions(features)), ledger: ledger.New(), nodes: make(map[string]*v1.Node),
		solver: &allocator.Solver{
			Features: features, Classes: classes{"gpu": b.Class("gpu")},
			Evaluator: selector.NewEvaluator(cel.NewCache(10, cel.Features{})),
		},
	}
	c.index = nodecache.New(c.store, c.ledger, &c.rooms, func(name string) *v1.Node { return c.nodes[name] })
	for i := range nodes {
		c.addNode(fmt.Sprintf("n%d", i))
		c.publish(fmt.Sprintf("n%d", i), devices)
	}
	return c
}

func (c *cluster) addNode(name string) {
	c.nodes[name] = b.Node(name)
	c.index.NodeChanged(name)
}

// publish makes the node's slice one with a number of devices, 0 for no slice.
func (c *cluster) publish(node string, devices int) {
	var slice *resourceapi.ResourceSlice
	if devices > 0 {
		slice = b.NodeSlice(node, b.NumberedDevices("gpu", devices)...).Obj()
	}
	c.store.RefreshSlice(node, func() *resourceapi.ResourceSlice { return slice })
}

func (c *cluster) hold(claim, node, device string) {
	holder := b.Claim(claim).Allocated(node, device)
	c.ledger.Refresh("default/"+claim, func() *resourceapi.ResourceClaim { return holder })
}

func (c *cluster) free(claim string) {
	c.ledger.Refresh("default/"+claim, func() *resourceapi.ResourceClaim { return nil })
}

func (c *cluster) task(count int64) *allocator.Task {
	claim := b.Claim("claim", b.Request("gpu", "gpu").Count(count))
	return c.solver.Prepare([]*resourceapi.ResourceClaim{claim.Obj()})
}

func (c *cluster) question(count int64) *nodecache.Question {
	return &nodecache.Question{Task: c.task(count)}
}

func (c *cluster) found(t *testing.T, count int64) []string {
	t.Helper()
	answer := c.index.Find(t.Context(), c.question(count))
	require.NotNil(t, answer)
	nodes, ok := answer.Names(1000)
	require.True(t, ok)
	for name := range c.store.LocalNodes() {
		require.Equal(t, nodes.Has(name) && c.nodes[name] != nil && count <= 32, answer.Has(name), name)
	}
	_, ok = answer.Names(len(nodes) - 1)
	require.False(t, ok)
	return slices.Sorted(maps.Keys(nodes))
}

func TestFollowsChanges(t *testing.T) {
	c := newCluster(3, 2)
	require.Equal(t, []string{"n0", "n1", "n2"}, c.found(t, 2))
	c.hold("a", "n1", "gpu-0")
	require.Equal(t, []string{"n0", "n2"}, c.found(t, 2))
	require.Equal(t, []string{"n0", "n1", "n2"}, c.found(t, 1))
	c.free("a")
	require.Equal(t, []string{"n0", "n1", "n2"}, c.found(t, 2))
	c.publish("n0", 1)
	require.Equal(t, []string{"n1", "n2"}, c.found(t, 2))
	c.publish("n0", 0)
	require.Equal(t, []string{"n1", "n2"}, c.found(t, 1))
	c.publish("n3", 2)
	require.Equal(t, []string{"n1", "n2", "n3"}, c.found(t, 2), "a node that nobody knows yet may be as good as any")
}

// TestLooksOnlyAtWhatChanged: a node that was not reported is not looked at again.
func TestLooksOnlyAtWhatChanged(t *testing.T) {
	c := newCluster(2, 1)
	require.Equal(t, []string{"n0", "n1"}, c.found(t, 1))
	looked := map[string]int{}
	c.index = nodecache.New(c.store, c.ledger, &c.rooms, func(name string) *v1.Node { looked[name]++; return c.nodes[name] })
	c.found(t, 1)
	require.Equal(t, map[string]int{"n0": 1, "n1": 1}, looked)
	c.found(t, 1)
	require.Equal(t, map[string]int{"n0": 1, "n1": 1}, looked)
	c.hold("a", "n1", "gpu-0")
	require.Equal(t, []string{"n0"}, c.found(t, 1))
	require.Equal(t, map[string]int{"n0": 1, "n1": 2}, looked)
	c.index.NodeChanged("n0")
	c.found(t, 1)
	require.Equal(t, map[string]int{"n0": 2, "n1": 2}, looked)
}

// TestPoolOfSeveralNodes: what happens to a slice of one node matters to the others that the
// pool has slices for, and a node that the pool leaves is looked at again.
func TestPoolOfSeveralNodes(t *testing.T) {
	c := newCluster(3, 0)
	put := func(name, node string) {
		slice := b.Slice(name).InPool("pool", 1, 2).OnNode(node).Devices(b.Device(name)).Obj()
		c.store.RefreshSlice(name, func() *resourceapi.ResourceSlice { return slice })
	}
	put("s0", "n0")
	put("s1", "n1")
	require.Equal(t, []string{"n0", "n1"}, c.found(t, 1))
	c.store.RefreshSlice("s1", func() *resourceapi.ResourceSlice { return nil })
	require.Empty(t, c.found(t, 1), "the pool is not complete")
	put("s1", "n1")
	require.Equal(t, []string{"n0", "n1"}, c.found(t, 1))
	put("s1", "n2")
	require.Equal(t, []string{"n0", "n2"}, c.found(t, 1))
	put("s1", "n0")
	require.Equal(t, []string{"n0"}, c.found(t, 2))
}

// TestTasksWithoutRequests: tasks that need no devices can go to nodes without devices, which the
// index does not know.
func TestTasksWithoutRequests(t *testing.T) {
	c := newCluster(2, 1)
	nothing, gpu := b.Claim("nothing").Obj(), b.Claim("gpu", b.Request("gpu", "gpu")).Obj()
	for range 3 {
		require.Nil(t, c.index.Find(t.Context(), &nodecache.Question{Task: c.solver.Prepare([]*resourceapi.ResourceClaim{nothing})}))
	}
	mixed := &nodecache.Question{Task: c.solver.Prepare([]*resourceapi.ResourceClaim{nothing, gpu})}
	c.index.Find(t.Context(), mixed)
	names, _ := c.index.Find(t.Context(), mixed).Names(10)
	require.Len(t, names, 2, "with another claim that needs devices")
}

// TestSameAsLookingEverywhere changes things at random and compares with a search on
// every node.
func TestSameAsLookingEverywhere(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	c := newCluster(6, 2)
	for range 3_000 {
		node := fmt.Sprintf("n%d", rng.Intn(8))
		switch rng.Intn(5) {
		case 0:
			c.publish(node, rng.Intn(4))
		case 1:
			c.hold(node+"-claim", node, fmt.Sprintf("gpu-%d", rng.Intn(3)))
		case 2:
			c.free(node + "-claim")
		case 3:
			c.addNode(node)
		}
		count := int64(1 + rng.Intn(3))
		var want []string
		for name := range c.store.LocalNodes() {
			n := c.nodes[name]
			if n == nil {
				want = append(want, name)
				continue
			}
			outcome, err := c.task(count).Check(t.Context(), allocator.NodeView{Node: n, Pools: c.store.OnNode(n), Usage: c.ledger})
			require.NoError(t, err)
			if outcome.Fits() {
				want = append(want, name)
			}
		}
		slices.Sort(want)
		require.Equal(t, want, c.found(t, count))
	}
}

func TestForgetsTasks(t *testing.T) {
	c := newCluster(1, 100)
	for count := range int64(100) {
		require.Equal(t, []string{"n0"}, c.found(t, count+1))
	}
	require.Equal(t, []string{"n0"}, c.found(t, 1))
}
