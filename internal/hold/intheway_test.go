package hold

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// pickyPod wants devices of one pool only, and records how many devices of the pool net were in use when its devices were searched.
type pickyPod struct {
	testPod
	pool  string
	inUse *[]int
}

// Wants implements Requirements.
func (p pickyPod) Wants(pool *inventory.NodePool, _ ...string) bool { return pool.ID.Name == p.pool }

// Solve implements Requirements.
func (p pickyPod) Solve(node *v1.Node, usage ledger.View) []ledger.Use {
	*p.inUse = append(*p.inUse, usage.Pool(inventory.PoolID{Driver: testDriver, Name: "net"}).Len())
	return p.testPod.Solve(node, usage)
}

// TestClaimsOfOtherDevices: claims on network-attached devices that a pod cannot use are neither tried nor held, although they end first. Those of
// pods on the node are tried: their end makes room.
func TestClaimsOfOtherDevices(t *testing.T) {
	t.Parallel()
	const others = 1000
	c := newTestCluster(1, 1)
	for i := range c.nodes {
		c.put(newJob(fmt.Sprintf("old-%d", i), 1, time.Hour, time.Duration(10*(i+1))*time.Minute), fmt.Sprintf("node-%d", i), "gpu-00")
	}
	var claims []types.UID
	for i := range others {
		j := newJob(fmt.Sprintf("net-%d", i), 1, time.Hour, time.Minute)
		c.put(j, "net", fmt.Sprintf("nic-%04d", i))
		claims = append(claims, j.UID)
	}
	w := &World{Now: c.now, Limits: noLimits, Cluster: c}
	net := &inventory.NodePool{ID: inventory.PoolID{Driver: testDriver, Name: "net"}}
	for i, node := range c.nodes {
		node.Pools = append(node.Pools, net)
		node.Claims = [][]types.UID{{types.UID(fmt.Sprintf("old-%d", i))}, claims}
		w.Nodes = append(w.Nodes, node)
	}
	one := c.waiting("waiting", 0, c.now.Add(-time.Hour), 1, 1)
	var held []int
	one.Pods[0].Requirements = pickyPod{testPod{c, one.Pods[0].UID, 1}, "node-0", &held}
	holds := w.Plan([]*Waiting{one})
	require.Len(t, holds, 1)
	require.Equal(t, []string{"node-0"}, holds[0].NodeNames())
	require.Equal(t, c.now.Add(10*time.Minute), holds[0].Begin)
	for _, held := range held {
		require.Equal(t, others, held, "all of them stay")
	}
	require.Less(t, len(held), 20)
}

// TestRoomOfOtherClaims: a pod on the node that holds a device of no use makes room when it ends.
func TestRoomOfOtherClaims(t *testing.T) {
	t.Parallel()
	c := newTestCluster(2)
	c.nodes[0].Room.Pods = 0
	c.put(newJob("old", 1, time.Hour, 10*time.Minute), "node-0", "gpu-00")
	w := c.world(noLimits, rand.New(rand.NewPCG(1, 1)))
	one := c.waiting("waiting", 0, c.now.Add(-time.Hour), 1, 1)
	one.Pods[0].Requirements = pickyPod{testPod{c, one.Pods[0].UID, 1}, "none", new([]int)}
	holds := w.Plan([]*Waiting{one})
	require.Len(t, holds, 1)
	require.Equal(t, c.now.Add(10*time.Minute), holds[0].Begin)
}

// TestOwnClaimStays: the devices of a claim that the holder's pod shares with one that runs do not become free for it when that one ends. Its
// room does.
func TestOwnClaimStays(t *testing.T) {
	t.Parallel()
	for _, room := range []int{0, 100} {
		c := newTestCluster(2)
		c.nodes[0].Room.Pods = room
		c.put(newJob("shared", 1, time.Hour, 10*time.Minute), "node-0", "gpu-00")
		c.put(newJob("other", 1, time.Hour, 20*time.Minute), "node-0", "gpu-01")
		one := c.waiting("waiting", 0, c.now.Add(-time.Hour), 1, 1)
		one.Pods[0].Allocated = []types.UID{"shared"}
		holds := c.world(noLimits, rand.New(rand.NewPCG(1, 1))).Plan([]*Waiting{one})
		require.Len(t, holds, 1)
		require.Equal(t, c.now.Add(20*time.Minute), holds[0].Begin)
		require.Equal(t, []ledger.Use{useOf("waiting-0", "node-0", []string{"gpu-01"})}, holds[0].All())
		one.Pods[0].Requirements = testPod{c, "waiting-0", 2}
		require.Empty(t, c.world(noLimits, rand.New(rand.NewPCG(1, 1))).Plan([]*Waiting{one}), "there are not two more")
	}
}

// TestOneHoldForAClaim: of holders that share a claim, the first one that gets a hold has it, by priority and not by age.
func TestOneHoldForAClaim(t *testing.T) {
	t.Parallel()
	c := newTestCluster(4)
	c.put(newJob("old", 2, time.Hour, 10*time.Minute), "node-0", "gpu-00", "gpu-01")
	holder := func(name string, priority int32, waits time.Duration, size int, claim types.UID) *Waiting {
		one := c.waiting(name, priority, c.now.Add(-waits), 1, size)
		one.Pods[0].Open = []types.UID{claim}
		one.Pods[0].Requirements = testPod{c, claim, size}
		return one
	}
	holds := c.world(noLimits, rand.New(rand.NewPCG(1, 1))).Plan([]*Waiting{
		holder("impossible", 0, 3*time.Hour, 5, "shared"), holder("older", 0, 2*time.Hour, 1, "shared"), holder("higher", 1, time.Hour, 1, "shared"), holder("other", 0, time.Hour, 1, "other"),
	})
	var names []string
	for _, h := range holds {
		names = append(names, h.Name)
	}
	require.Equal(t, []string{"ns/higher", "ns/other"}, names)
	w := c.world(noLimits, rand.New(rand.NewPCG(1, 1)))
	w.Tried = []Tried{{Hold: holds[0]}}
	require.Equal(t, holds[:1], w.Plan([]*Waiting{holder("older", 0, 2*time.Hour, 1, "shared")}))
}
