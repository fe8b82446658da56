package whatif

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// worldCount is how many random worlds a test looks at: usual, or a quarter with -short.
func worldCount(usual uint64) uint64 {
	if testing.Short() {
		return usual / 4
	}
	return usual
}

// A world that was derived from another one, in whatever steps, is the same as one that is made of the objects which
// it should have: the same answers to all questions.
func TestDerived(t *testing.T) {
	for seed := range worldCount(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := &randomWorld{Rand: rand.New(rand.NewPCG(seed, 20))}
			s := New(r.objects(), Options{Seed: seed})
			for range 6 {
				s = r.step(t, s)
				afresh := New(s.objects(), Options{Seed: seed})
				r.compare(t, s, afresh)
			}
		})
	}
}

// randomWorld makes small clusters in which everything happens that overlays have to get right: pools of a node and for all
// nodes, claims that pods share, pods that ask for CPU.
type randomWorld struct {
	*rand.Rand
	count int
}

func (r *randomWorld) name(kind string) string {
	r.count++
	return fmt.Sprintf("%s-%d", kind, r.count)
}

func (r *randomWorld) objects() Objects {
	o := Objects{
		Classes: []*resourceapi.DeviceClass{builder.DriverClass(builder.Driver), builder.DriverClass("nic.example.com")},
		Slices:  []*resourceapi.ResourceSlice{r.networkSlice()},
	}
	for range 1 + r.IntN(4) {
		r.addNode(&o)
	}
	return o
}

// networkSlice is a slice of a pool for all nodes.
func (r *randomWorld) networkSlice() *resourceapi.ResourceSlice {
	return builder.Slice(r.name("net")).OfDriver("nic.example.com").OnAllNodes().Devices(builder.NumberedDevices("nic", 1+r.IntN(3))...).Obj()
}

func (r *randomWorld) addNode(o *Objects) {
	name := r.name("node")
	node := builder.Node(name)
	node.Status.Allocatable = builder.Resources("cpu", "2", "memory", "1Gi", "pods", "5")
	node.Spec.Unschedulable = r.IntN(8) == 0
	o.Nodes = append(o.Nodes, node)
	if r.IntN(4) > 0 {
		o.Slices = append(o.Slices, builder.NodeSlice(name, builder.NumberedDevices("gpu", 1+r.IntN(3))...).Obj())
	}
}

// pod asks for some devices, with a claim that is in the objects.
func (r *randomWorld) pod(o *Objects) *v1.Pod {
	claim := builder.Claim(r.name("claim"), builder.Request("gpu", builder.Driver).Count(int64(1+r.IntN(2)))).Obj()
	if r.IntN(3) == 0 {
		claim = builder.Claim(r.name("claim"), builder.Request("nic", "nic.example.com")).Obj()
	}
	o.Claims = append(o.Claims, claim)
	pod := builder.Pod(r.name("pod"), builder.Using(builder.Uses(claim.Name)...))
	if r.IntN(2) == 0 {
		builder.Container("main", "cpu", "700m")(pod)
	}
	return pod
}

// step changes a world.
func (r *randomWorld) step(t *testing.T, s *Snapshot) *Snapshot {
	t.Helper()
	var more Objects
	switch r.IntN(6) {
	case 0:
		r.addNode(&more)
	case 1:
		more.Slices = append(more.Slices, r.networkSlice())
	case 2: // A pool gets another slice.
		pools := s.Pools()
		id := pools[r.IntN(len(pools))].ID
		for _, slice := range s.objects().Slices {
			if poolOf(slice) == id {
				slice = slice.DeepCopy()
				slice.Spec.Pool.Generation++
				slice.Spec.Devices = slice.Spec.Devices[:len(slice.Spec.Devices)/2]
				more.Slices = append(more.Slices, slice)
			}
		}
	case 3:
		return r.remove(t, s)
	default:
		pods := []*v1.Pod{r.pod(&more), r.pod(&more)}
		if r.IntN(3) == 0 { // One that shares a claim.
			pods = append(pods, builder.Pod(r.name("pod"), builder.Using(builder.Uses(more.Claims[0].Name)...)))
		}
		answer, err := s.With(more).Fit(t.Context(), pods...)
		require.NoError(t, err)
		return answer.After
	}
	return s.With(more)
}

func (r *randomWorld) remove(t *testing.T, s *Snapshot) *Snapshot {
	t.Helper()
	var gone Removal
	switch pods, claims, nodes := s.Pods(), s.Claims(), s.Nodes(); {
	case r.IntN(4) == 0 && len(nodes) > 1:
		gone.Nodes = append(gone.Nodes, nodes[r.IntN(len(nodes))].Name)
	case r.IntN(2) == 0 && len(claims) > 0:
		gone.Claims = append(gone.Claims, Key(claims[r.IntN(len(claims))]))
	case len(pods) > 0:
		gone.Pods = append(gone.Pods, Key(pods[r.IntN(len(pods))]))
	}
	after, err := s.Without(gone)
	require.NoError(t, err)
	return after
}

func (r *randomWorld) compare(t *testing.T, derived, afresh *Snapshot) {
	t.Helper()
	require.Equal(t, poolsIn(afresh), poolsIn(derived))
	var more Objects
	pods := []*v1.Pod{r.pod(&more), r.pod(&more), r.pod(&more)}
	derived, afresh = derived.With(more), afresh.With(more)
	for range 2 { // The second time what is remembered counts.
		got, err := derived.Fit(t.Context(), pods...)
		require.NoError(t, err)
		want, err := afresh.Fit(t.Context(), pods...)
		require.NoError(t, err)
		require.Equal(t, verdicts(want), verdicts(got))
	}
	got, err := derived.Explain(t.Context(), pods[0])
	require.NoError(t, err)
	want, err := afresh.Explain(t.Context(), pods[0])
	require.NoError(t, err)
	require.Equal(t, reasons(want), reasons(got))
}

// poolsIn says for each pool which devices are in use.
func poolsIn(s *Snapshot) []string {
	var all []string
	for _, pool := range s.Pools() {
		text := pool.ID.String()
		for i := range pool.Devices {
			name := pool.Devices[i].Name
			text += fmt.Sprintf(" %s:%v", name, s.usage.OfPool(pool).Device(name).Holders)
		}
		all = append(all, text)
	}
	return all
}

func verdicts(answer *Answer) string {
	text := string(answer.Verdict)
	for i := range answer.Plans {
		text += " " + answer.Plans[i].Node
		for _, claim := range answer.Plans[i].Claims {
			text += fmt.Sprint(" ", claim.Status.Allocation.Devices.Results)
		}
	}
	return text
}

func reasons(e *Explanation) []string {
	all := []string{fmt.Sprint(e.Fits)}
	for _, group := range e.Groups {
		all = append(all, fmt.Sprint(group.Reason, group.Nodes))
	}
	return all
}
