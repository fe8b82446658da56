package facts

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// world has nodes with so many GPUs each.
func world(gpus ...int) *whatif.Objects {
	o := &whatif.Objects{Classes: []*resourceapi.DeviceClass{builder.DriverClass(builder.Driver)}}
	for i, n := range gpus {
		name := fmt.Sprintf("node-%d", i)
		node := builder.Node(name)
		node.Status.Allocatable = builder.Resources("cpu", "8", "memory", "8Gi", "pods", "20")
		o.Nodes = append(o.Nodes, node)
		o.Slices = append(o.Slices, builder.NodeSlice(name, builder.NumberedDevices("gpu", n)...).Obj())
	}
	return o
}

// run has a pod on a node hold devices of it, from one on.
func run(o *whatif.Objects, name string, node, first, count int) {
	var devices []string
	for i := range count {
		devices = append(devices, fmt.Sprintf("gpu-%d", first+i))
	}
	on := o.Nodes[node].Name
	claim := builder.Claim(name, builder.Request("gpu", builder.Driver).Count(int64(count))).Allocated(on, devices...)
	pod := builder.Pod(name, builder.Using(builder.Uses(name)...), func(p *v1.Pod) { p.Spec.NodeName = on })
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: pod.UID}}
	o.Claims, o.Pods = append(o.Claims, claim), append(o.Pods, pod)
}

// asking is a pod that wants so many GPUs.
func asking(o *whatif.Objects, gpus int) *v1.Pod {
	o.Claims = append(o.Claims, builder.Claim("asked", builder.Request("gpu", builder.Driver).Count(int64(gpus))).Obj())
	return builder.Pod("asked", builder.Using(builder.Uses("asked")...))
}

func TestCount(t *testing.T) {
	o := world(4, 4, 1)
	run(o, "a", 0, 0, 1)
	run(o, "b", 1, 0, 3)
	o.Slices = append(o.Slices, builder.Slice("net").OfDriver("nic").OnAllNodes().Devices(builder.NumberedDevices("nic", 2)...).Obj())
	o.Classes = append(o.Classes, builder.DriverClass("nic"))
	s := whatif.New(*o, whatif.Options{})
	got := make(map[string][2]int)
	for _, shape := range append(Classes(s), Seen(s, 10)...) {
		require.NoError(t, shape.Count(t.Context(), s))
		got[shape.Name] = [2]int{shape.More, shape.Nodes}
	}
	assert.Equal(t, map[string][2]int{
		builder.Driver: {5, 3},
		"nic":          {2, 1}, // The first node takes both, and nobody else can.
		"default/a":    {5, 3},
		"default/b":    {1, 1},
	}, got)
}

func TestRoom(t *testing.T) {
	o := world(4, 4)
	run(o, "a", 0, 0, 1)
	run(o, "b", 0, 1, 1)
	run(o, "c", 1, 0, 2)
	pod := asking(o, 3)
	advice, err := RoomFor(t.Context(), whatif.New(*o, whatif.Options{}), pod)
	require.NoError(t, err)
	assert.Equal(t, &Advice{
		Node: "node-0", Moves: []Move{{Pod: "default/a", From: "node-0", To: "node-1"}}, Fewest: true, Tried: 1,
	}, advice)

	advice, err = RoomFor(t.Context(), whatif.New(*world(4), whatif.Options{}), asking(world(4), 3))
	require.NoError(t, err)
	assert.False(t, advice.Fits, "its claim does not exist")
	assert.True(t, advice.Fewest)
	assert.Empty(t, advice.Node)
}
