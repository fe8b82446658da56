package gangplacement

import (
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

func TestScores(t *testing.T) {
	t.Parallel()
	const required, preferred = domain.RequiredAnnotation, domain.PreferredAnnotation
	byRack, byClique := "label=rack", "attribute="+clique
	nics := func(w *world, node string, count int) *world {
		w.slices = append(w.slices, builder.Slice("nic-"+node).OfDriver("nic.example.com").OnNode(node).Devices(builder.NumberedDevices("nic", count)...))
		return w
	}
	tainted := func(w *world, effect resourceapi.DeviceTaintEffect) *world {
		w.slices[len(w.slices)-1].Modify(func(slice *resourceapi.ResourceSlice) {
			slice.Spec.Devices[0].Taints = []resourceapi.DeviceTaint{{Key: "example.com/broken", Effect: effect}}
		})
		return w
	}
	fabric := func(w *world) *world { // All nodes reach it.
		w.slices = append(w.slices, builder.Slice("fabric").OnAllNodes().Devices(builder.NumberedDevices("gpu", 9)...))
		return w
	}
	one := func(node string) []string { return []string{node} }
	tests := map[string]struct {
		world    *world
		assigned map[string][]string
		want     map[string]int64
	}{
		"the tighter of two": {
			world:    newWorld(t, required, byRack).node(label("rack", "r0"), "a", "a", "a").node(label("rack", "r1"), "a", "a").waits(1, "gpu"),
			assigned: map[string][]string{"r0": one("n0"), "r1": one("n1")},
			want:     map[string]int64{"r0": 99, "r1": 100},
		},
		"what is taken is not left over": {
			world:    newWorld(t, required, byRack).node(label("rack", "r0"), "a", "a", "a").node(label("rack", "r1"), "a", "a").taken("n0", "gpu-0", "gpu-1").waits(1, "gpu"),
			assigned: map[string][]string{"r0": one("n0"), "r1": one("n1")},
			want:     map[string]int64{"r0": 100, "r1": 99},
		},
		"only the kind that is taken": {
			world:    nics(nics(newWorld(t, required, byRack).node(label("rack", "r0"), "a", "a", "a").node(label("rack", "r1"), "a", "a"), "n0", 1), "n1", 7).waits(1, "gpu"),
			assigned: map[string][]string{"r0": one("n0"), "r1": one("n1")},
			want:     map[string]int64{"r0": 99, "r1": 100},
		},
		"another kind": {
			world:    nics(nics(newWorld(t, required, byRack).node(label("rack", "r0"), "a", "a", "a").node(label("rack", "r1"), "a", "a"), "n0", 1), "n1", 7).waits(1, "nic"),
			assigned: map[string][]string{"r0": one("n0"), "r1": one("n1")},
			want:     map[string]int64{"r0": 100, "r1": 99},
		},
		"a class that does not exist: all kinds": {
			world:    nics(nics(newWorld(t, required, byRack).node(label("rack", "r0"), "a", "a", "a").node(label("rack", "r1"), "a", "a"), "n0", 1), "n1", 7).waits(1, "missing"),
			assigned: map[string][]string{"r0": one("n0"), "r1": one("n1")},
			want:     map[string]int64{"r0": 100, "r1": 99},
		},
		"tainted devices are not free": {
			world:    tainted(newWorld(t, required, byRack).node(label("rack", "r0"), "a", "a").node(label("rack", "r1"), "a", "a"), resourceapi.DeviceTaintEffectNoSchedule).waits(1, "gpu"),
			assigned: map[string][]string{"r0": one("n0"), "r1": one("n1")},
			want:     map[string]int64{"r0": 99, "r1": 100},
		},
		"taints without effect": {
			world:    tainted(newWorld(t, required, byRack).node(label("rack", "r0"), "a", "a").node(label("rack", "r1"), "a", "a"), resourceapi.DeviceTaintEffectNone).waits(1, "gpu"),
			assigned: map[string][]string{"r0": one("n0"), "r1": one("n1")},
			want:     map[string]int64{"r0": 100, "r1": 99},
		},
		"only those of the clique": {
			world:    newWorld(t, required, byClique).node(nil, "a", "b", "b").node(nil, "b").node(nil, "c", "c").waits(1, "gpu"),
			assigned: map[string][]string{"a": one("n0"), "b": one("n0"), "c": one("n2")},
			want:     map[string]int64{"a": 100, "b": 98, "c": 99},
		},
		"what several nodes reach counts once": {
			world:    fabric(newWorld(t, required, byRack).node(label("rack", "r0"), "a").node(label("rack", "r1")).node(label("rack", "r1"))).waits(1, "gpu"),
			assigned: map[string][]string{"r0": one("n0"), "r1": one("n1")},
			want:     map[string]int64{"r0": 99, "r1": 100},
		},
		"equals by name": {
			world:    newWorld(t, required, byRack).node(label("rack", "r1"), "a").node(label("rack", "r0"), "a").node(label("rack", "r2"), "a").waits(1, "gpu"),
			assigned: map[string][]string{"r0": one("n1"), "r1": one("n0"), "r2": one("n2")},
			want:     map[string]int64{"r0": 100, "r1": 99, "r2": 98},
		},
		"without devices they are equal": {
			world:    newWorld(t, required, byRack).node(label("rack", "r0"), "a", "a").node(label("rack", "r1"), "a").waits(1, ""),
			assigned: map[string][]string{"r0": one("n0"), "r1": one("n1")},
			want:     map[string]int64{"r0": 100, "r1": 100},
		},
		"more pods before fewer devices": {
			world:    newWorld(t, required, byRack).node(label("rack", "r0"), "a", "a", "a").node(label("rack", "r1"), "a").waits(2, "gpu"),
			assigned: map[string][]string{"r0": {"n0", "n0"}, "r1": {"n1"}},
			want:     map[string]int64{"r0": 100, "r1": 99},
		},
		"constraint of the API": {
			world:    inZone(newWorld(t, "", "").node(label("zone", "z0"), "a", "a").node(label("zone", "z1"), "a")).waits(1, "gpu"),
			assigned: map[string][]string{"z0": one("n0"), "z1": one("n1")},
			want:     map[string]int64{"z0": 99, "z1": 100},
		},
		"preferred: one domain, then fewer devices, all nodes last": {
			world:    newWorld(t, preferred, byRack).node(label("rack", "r0"), "a", "a", "a").node(label("rack", "r1"), "a", "a").node(label("rack", "r2"), "a").waits(2, "gpu"),
			assigned: map[string][]string{"r0": {"n0", "n0"}, "r1": {"n1", "n1"}, "2 domains": {"n0", "n1"}, "": {"n1", "n1"}},
			want:     map[string]int64{"r0": 99, "r1": 100, "2 domains": 98, "": 97},
		},
		"preferred: where its pods run": {
			world:    newWorld(t, preferred, byRack).node(label("rack", "r0"), "a").node(label("rack", "r1"), "a", "a", "a").runs("n1", "gpu-0").waits(1, "gpu"),
			assigned: map[string][]string{"r0": one("n0"), "r1": one("n1"), "": one("n0")},
			want:     map[string]int64{"r0": 99, "r1": 100, "": 98},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.world.t = t
			_, status := test.world.generate()
			require.True(t, status.IsSuccess(), status.Message())
			require.Equal(t, test.want, test.world.scores(test.assigned))
		})
	}
}

// Scores of many placements stay in their range, and the best stay apart.
func TestManyScores(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", "").waits(1, "gpu").begin()
	var scores []fwk.PlacementScore
	for i := range 300 {
		scores = append(scores, fwk.PlacementScore{Placement: &fwk.Placement{}, Score: -int64(i)})
	}
	rand.New(rand.NewSource(1)).Shuffle(len(scores), func(i, j int) { scores[i], scores[j] = scores[j], scores[i] })
	raw := slices.Clone(scores)
	require.True(t, w.pl.NormalizePlacementScore(t.Context(), nil, w.groupInfo(), scores).IsSuccess())
	for i := range scores {
		require.Equal(t, max(0, 100+raw[i].Score), scores[i].Score)
	}
}

// A packed rating is compared as its fields are, one after the other.
func TestRatings(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewSource(2))
	number := func() int { return random.Intn(3) * random.Intn(1<<16) }
	for range 10000 {
		a := rating{random.Intn(2), number(), number(), number()}
		b := rating{random.Intn(2), number(), number(), number()}
		fields := func(r rating) []int { return []int{r.last, r.missing, r.domains, r.free} }
		require.Equal(t, slices.Compare(fields(a), fields(b)) < 0, a.pack() > b.pack(), "%v %v", a, b)
	}
	require.Equal(t, rating{domains: most}.pack(), rating{domains: most + 1}.pack(), "no overflow")
}

func TestScoreNeedsItsOwnPlacements(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", "").node(nil, "a").waits(1, "gpu").begin()
	state := framework.NewCycleState()
	state.SetPodGroupSchedulingCycle(framework.NewCycleState())
	assigned := &fwk.PodGroupAssignments{Placement: &fwk.Placement{}}
	_, status := w.pl.ScorePlacement(t.Context(), state, w.groupInfo(), assigned)
	require.Contains(t, status.Message(), "enable it at placementGenerate as well")
	_, status = w.generate()
	require.True(t, status.IsSuccess())
	state.SetPodGroupSchedulingCycle(w.state)
	_, status = w.pl.ScorePlacement(t.Context(), state, w.groupInfo(), assigned)
	require.Contains(t, status.Message(), "enable it at placementGenerate as well")
}

// Pods may get devices for extended resources, without a claim in their spec.
func TestTakesDevices(t *testing.T) {
	t.Parallel()
	pod := builder.Pod("pod")
	require.False(t, takesDevices([]*v1.Pod{pod}))
	pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": {}}}}}
	require.False(t, takesDevices([]*v1.Pod{pod}))
	pod.Spec.Containers[0].Resources.Requests["example.com/gpu"] = pod.Spec.Containers[0].Resources.Requests["cpu"]
	require.True(t, takesDevices([]*v1.Pod{builder.Pod("other"), pod}))
}

func TestArguments(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", "").begin()
	_, err := New(t.Context(), &runtime.Unknown{Raw: []byte(`{"a": 1}`)}, w.pl.handle)
	require.ErrorContains(t, err, "has none; remove them")
	_, err = New(t.Context(), &runtime.Unknown{}, w.pl.handle)
	require.NoError(t, err)
}
