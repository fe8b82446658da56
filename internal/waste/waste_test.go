package waste

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
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
	advice, err := Room(t.Context(), whatif.New(*o, whatif.Options{}), pod)
	require.NoError(t, err)
	assert.Equal(t, &Advice{
		Node: "node-0", Moves: []Move{{Pod: "default/a", From: "node-0", To: "node-1"}}, Fewest: true, Tried: 1,
	}, advice)

	advice, err = Room(t.Context(), whatif.New(*world(4), whatif.Options{}), asking(world(4), 3))
	require.NoError(t, err)
	assert.False(t, advice.Fits, "its claim does not exist")
	assert.True(t, advice.Fewest)
	assert.Empty(t, advice.Node)
}

// TestRoomRandom compares with trying all sets of pods of a node.
func TestRoomRandom(t *testing.T) {
	moved := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 20))
		sizes := make([]int, 2+r.IntN(2))
		for i := range sizes {
			sizes[i] = 2 + r.IntN(3)
		}
		o := world(sizes...)
		for node, size := range sizes {
			for first := 0; first < size; {
				count := min(1+r.IntN(2), size-first)
				if r.IntN(3) > 0 {
					run(o, fmt.Sprintf("p-%d-%d", node, first), node, first, count)
				}
				first += count
			}
		}
		pod := asking(o, 1+r.IntN(4))
		s := whatif.New(*o, whatif.Options{})
		advice, err := Room(t.Context(), s, pod)
		require.NoError(t, err)
		want := fewest(t, s, pod)
		switch {
		case advice.Fits:
			require.Zero(t, want, "seed %d", seed)
		case advice.Node == "":
			require.Equal(t, -1, want, "seed %d", seed)
		default:
			require.Len(t, advice.Moves, want, "seed %d", seed)
			moved++
		}
		require.True(t, advice.Fewest)
	}
	assert.Greater(t, moved, 30, "the random worlds are such that moves help")
}

// fewest is how many pods of one node have to move, -1 if no moves help.
func fewest(t *testing.T, s *whatif.Snapshot, pod *v1.Pod) int {
	t.Helper()
	best := -1
	all := s.Pods()
	for set := range 1 << len(all) {
		n := bits.OnesCount(uint(set))
		if n > MovesAtMost || best >= 0 && n >= best {
			continue
		}
		var gone whatif.Removal
		var again []*v1.Pod
		nodes := make(map[string]bool)
		for i, other := range all {
			if set&(1<<i) != 0 {
				gone.Pods, again = append(gone.Pods, whatif.Key(other)), append(again, started(other))
				nodes[other.Spec.NodeName] = true
			}
		}
		if len(nodes) > 1 {
			continue
		}
		without, err := s.Without(gone)
		require.NoError(t, err)
		for _, node := range s.Nodes() {
			if n > 0 && !nodes[node.Name] {
				continue
			}
			here, err := without.FitOn(t.Context(), pod, node.Name)
			require.NoError(t, err)
			if here.Verdict != whatif.Fits {
				continue
			}
			answer, err := inAnyOrder(t.Context(), here.After, again)
			require.NoError(t, err)
			if answer != nil {
				best = n
			}
		}
	}
	return best
}
