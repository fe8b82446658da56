package nodecache_test

import (
	"fmt"
	"runtime"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/noderesources"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// shareSeats has a pool that all nodes reach.
func (r *racks) shareSeats(devices int) {
	slice := b.Slice("fabric").InPool("fabric", 1, 1).OnAllNodes().Devices(b.NumberedDevices("seat", devices)...).Obj()
	r.store.RefreshSlice("fabric", func() *resourceapi.ResourceSlice { return slice })
}

// TestNodesThatShareAndHaveTheirOwn: who takes a device that all nodes reach does not have all nodes be looked at again for the
// next pod if each has devices of its own as well, so that no two see the same.
func TestNodesThatShareAndHaveTheirOwn(t *testing.T) {
	const nodes = 300
	r := newRacks(nodes, nodes, 0)
	for _, name := range r.names {
		r.publish(name, 2)
	}
	r.shareSeats(50)
	r.index.Enough, r.index.AtOnce, r.index.Growth = 20, 10, 10
	for range nodes / 10 {
		r.find(t, 2)
	}
	names, ok := r.find(t, 2).Names(nodes)
	require.True(t, ok)
	require.Len(t, names, nodes)
	for i := range 20 {
		r.hold(fmt.Sprintf("c%d", i), "fabric", fmt.Sprintf("seat-%d", i))
		r.looks.Store(0)
		a := r.find(t, 2)
		require.LessOrEqual(t, r.looks.Load(), int64(40))
		has := 0
		for _, name := range r.names {
			if a.Has(name) {
				has++
			}
		}
		require.GreaterOrEqual(t, has, 20, "there is a choice")
	}
	for range nodes / 10 {
		r.find(t, 2)
	}
	names, ok = r.find(t, 2).Names(nodes)
	require.True(t, ok, "all are known one day")
	require.Len(t, names, nodes)
}

// TestFeaturesAreNoPools: what nodes see of pools and the features that they declare cannot be taken for one another.
func TestFeaturesAreNoPools(t *testing.T) {
	r := newRacks(0, 1, 0)
	for i := range 98 {
		name := fmt.Sprintf("p%02d", i)
		slice := b.Slice(name).InPool(name, 1, 1).OnLabeled(name, "yes").Devices(b.Device("gpu")).Obj()
		r.store.RefreshSlice(name, func() *resourceapi.ResourceSlice { return slice })
	}
	add := func(name string, features []string, pools ...int) {
		node := b.Node(name)
		node.Labels = map[string]string{}
		for _, i := range pools {
			node.Labels[fmt.Sprintf("p%02d", i)] = "yes"
		}
		node.Status.DeclaredFeatures = features
		r.nodes[name] = node
		r.names = append(r.names, name)
		r.index.NodeChanged(name)
		r.snapshot()
		r.find(t, 3)
	}
	all := make([]int, 98)
	for i := range all {
		all[i] = i
	}
	add("all", nil, all...) // Sees them first, so that they are numbered by their names.
	add("three", nil, 1, '/', 'a')
	add("one", []string{"a"}, 1)
	a := r.find(t, 3)
	require.True(t, a.Has("three"))
	require.False(t, a.Has("one"))
}

// TestChangesOfPoolsThatDoNotMatter: devices that several nodes reach are taken and released all the time, and a task that could not use
// them has no node be looked at again for that.
func TestChangesOfPoolsThatDoNotMatter(t *testing.T) {
	r := newRacks(0, 1, 0)
	for i := range 5 {
		name := fmt.Sprintf("n%d", i)
		r.names = append(r.names, name)
		r.inRack(name, 0)
		r.publish(name, 2)
	}
	r.snapshot()
	slice := b.Slice("fabric").InPool("fabric", 1, 1).OnAllNodes().OfDriver("other.example.com").Devices(b.Device("port")).Obj()
	r.store.RefreshSlice("fabric", func() *resourceapi.ResourceSlice { return slice })
	claim := b.Claim("claim", b.Request("gpu", "gpu").Where(`device.driver != "other.example.com"`))
	q := r.question(1)
	q.Task = r.solver.Prepare([]*resourceapi.ResourceClaim{claim.Obj()})
	q.Pod = noderesources.Resources{Pods: 1}
	require.False(t, r.index.Find(t.Context(), q).IsShared())
	r.looks.Store(0)
	holder := b.Claim("c").Obj()
	holder.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "r", Driver: "other.example.com", Pool: "fabric", Device: "port"}}}}
	r.ledger.Refresh("default/c", func() *resourceapi.ResourceClaim { return holder })
	r.index.Find(t.Context(), q)
	require.Zero(t, r.looks.Load())
}

// TestNothingIsKeptAlive: versions of pools that drivers have replaced are not kept by what is known of nodes.
func TestNothingIsKeptAlive(t *testing.T) {
	r := newRacks(4, 4, 2)
	r.publish("n0", 1)
	r.find(t, 1)
	seen := weak.Make(r.store.OnNode(r.nodes["n0"])[0])
	require.Equal(t, "n0", seen.Value().ID.Name)
	r.publish("n0", 3)
	a := r.find(t, 1)
	for range 10 {
		runtime.GC()
	}
	require.Nil(t, seen.Value())
	require.True(t, a.Has("n0"))
}
