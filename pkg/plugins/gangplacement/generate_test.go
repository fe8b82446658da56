package gangplacement

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/cluster"
	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/internal/gang/workload"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// inZone makes the group require one zone, with a constraint of the API.
func inZone(w *world) *world {
	w.group.Spec.SchedulingConstraints = &schedulingapi.PodGroupSchedulingConstraints{Topology: []schedulingapi.TopologyConstraint{{Key: "zone"}}}
	return w
}

func label(pairs ...string) []string { return pairs }

// each returns n different values.
func each(n int) (values []any) {
	for i := range n {
		values = append(values, fmt.Sprint(i))
	}
	return values
}

func TestGeneratePlacements(t *testing.T) {
	t.Parallel()
	const required, preferred = domain.RequiredAnnotation, domain.PreferredAnnotation
	byRack, byClique := "label=rack", "attribute="+clique
	list := resourceapi.DeviceAttribute{StringValues: []string{"a", "b"}}
	tests := map[string]struct {
		world *world
		want  map[string][]string
		err   []string
	}{
		"no wish": {
			world: newWorld(t, "", "").node(label("rack", "r0"), "a").node(nil, "b"),
			want:  map[string][]string{"": {"n0", "n1"}},
		},
		"constraint of the API": {
			world: inZone(newWorld(t, "", "").node(label("zone", "z0")).node(label("zone", "z1")).node(label("zone", "z0")).node(nil)),
			want:  map[string][]string{"z0": {"n0", "n2"}, "z1": {"n1"}},
		},
		"constraint of the API that nothing meets": {
			world: inZone(newWorld(t, required, byRack).node(label("rack", "r0"))),
			want:  map[string][]string{},
		},
		"label required": {
			world: newWorld(t, required, byRack).node(label("rack", "r1")).node(label("rack", "r0")).node(label("rack", "r1")).node(nil),
			want:  map[string][]string{"r0": {"n1"}, "r1": {"n0", "n2"}},
		},
		"attribute required": {
			world: newWorld(t, required, byClique).node(nil, "a", "b").node(nil, "b").node(nil, list).node(nil, "c").node(nil),
			want:  map[string][]string{"a": {"n0", "n2"}, "b": {"n0", "n1", "n2"}, "c": {"n3"}},
		},
		"both constraints": {
			world: inZone(newWorld(t, required, byClique).node(label("zone", "z0"), "a").node(label("zone", "z1"), "a").node(label("zone", "z1"), "b").node(nil, "b")),
			want:  map[string][]string{"z0/a": {"n0"}, "z1/a": {"n1"}, "z1/b": {"n2"}},
		},
		"required, one is in none": {
			world: newWorld(t, required, byClique).node(nil).node(label("rack", "r0")),
			err:   []string{"needs a domain by attribute=" + clique, "none of 2 nodes reaches a device with attribute " + clique},
		},
		"required, no label": {
			world: newWorld(t, required, byRack).node(nil, "a"),
			err:   []string{"none of 1 nodes has label rack"},
		},
		"attribute preferred": {
			world: newWorld(t, preferred, byClique).node(nil, "a").node(nil, "b", "b").node(nil, "c", "c", "c").node(nil),
			want:  map[string][]string{"a": {"n0"}, "b": {"n1"}, "c": {"n2"}, "2 domains": {"n1", "n2"}, "": {"n0", "n1", "n2", "n3"}},
		},
		"preferred, of domains without free devices none is joined": {
			world: newWorld(t, preferred, byClique).node(nil, "a").node(nil, "b", "b").node(nil, "c", "c", "c").taken("n2", "gpu-0", "gpu-1", "gpu-2"),
			want:  map[string][]string{"a": {"n0"}, "b": {"n1"}, "c": {"n2"}, "": {"n0", "n1", "n2"}},
		},
		"preferred, and there is none": {
			world: newWorld(t, preferred, byRack).node(nil).node(nil),
			want:  map[string][]string{"": {"n0", "n1"}},
		},
		"preferred within a constraint of the API": {
			world: inZone(newWorld(t, preferred, byRack).node(label("zone", "z0", "rack", "r0")).node(label("zone", "z0")).node(label("rack", "r0"))),
			want:  map[string][]string{"z0/r0": {"n0"}, "z0": {"n0", "n1"}},
		},
		"required, pods run": {
			world: newWorld(t, required, byRack).node(label("rack", "r0")).node(label("rack", "r1")).node(label("rack", "r1")).runs("n1", "").runs("n2", ""),
			want:  map[string][]string{"r1": {"n1", "n2"}},
		},
		"required, pods run apart": {
			world: newWorld(t, required, byRack).node(label("rack", "r0")).node(label("rack", "r1")).runs("n0", "").runs("n1", ""),
			err:   []string{"running-0 in \"r0\"", "running-1 in \"r1\"", preferred},
		},
		"required, a pod runs in none": {
			world: newWorld(t, required, byRack).node(label("rack", "r0")).node(nil).runs("n1", "").runs("n0", ""),
			err:   []string{"its pod running-0 runs on node n1 which is in none"},
		},
		"preferred, pods run apart": {
			world: newWorld(t, preferred, byRack).node(label("rack", "r0")).node(label("rack", "r1")).runs("n0", "").runs("n1", ""),
			want:  map[string][]string{"r0": {"n0"}, "r1": {"n1"}, "": {"n0", "n1"}},
		},
		"required, a pod has a device of one of the domains of its node": {
			world: newWorld(t, required, byClique).node(nil, "a", "b").node(nil, "a").node(nil, "b").runs("n0", "gpu-1"),
			want:  map[string][]string{"b": {"n0", "n2"}},
		},
		"required, a pod without device is on a node in two": {
			world: newWorld(t, required, byClique).node(nil, "a", "b").node(nil, "a").node(nil, "c").runs("n0", ""),
			want:  map[string][]string{"a": {"n0", "n1"}, "b": {"n0"}},
		},
		"required, two pods leave one of two": {
			world: newWorld(t, required, byClique).node(nil, "a", "b").node(nil, "a").node(nil, "c").runs("n0", "").runs("n1", "gpu-0"),
			want:  map[string][]string{"a": {"n0", "n1"}},
		},
		"required, each device is a domain": {
			world: newWorld(t, required, byClique).node(nil, each(300)...),
			err:   []string{"1 nodes are in 300 domains; name an attribute with fewer values"},
		},
		"preferred, each device is a domain": {
			world: newWorld(t, preferred, byClique).node(nil, each(300)...),
			want:  map[string][]string{"": {"n0"}},
		},
		"malformed": {
			world: newWorld(t, required, "rack").node(nil),
			err:   []string{required, `"rack"`, `"label=topology.example.com/rack"`},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.world.t = t
			got, status := test.world.generate()
			if test.err == nil {
				require.True(t, status.IsSuccess(), status.Message())
				require.Equal(t, test.want, got)
				return
			}
			require.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code(), "preemption cannot help")
			for _, part := range test.err {
				require.Contains(t, status.Message(), part)
			}
		})
	}
}

// Devices are unknown if no profile has Quartermaster.
func TestWithoutQuartermaster(t *testing.T) {
	t.Parallel()
	w := newWorld(t, domain.RequiredAnnotation, "attribute="+clique).node(nil, "a").begin()
	w.pl.state = func() *cluster.State { return nil }
	_, status := w.generate()
	require.Contains(t, status.Message(), "none of 1 nodes reaches a device")
}

// The plugin that allocates devices knows the domain in which a group is tried.
func TestPlacedDomain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, domain.PreferredAnnotation, "attribute="+clique).node(nil, "a", "b").node(nil, "a", "b").node(nil, "c").waits(2, "gpu")
	_, status := w.generate()
	require.True(t, status.IsSuccess())
	require.Equal(t, map[string]string{"a": "a", "b": "b", "c": "c"}, w.placedDomains(), "not where there are several")

	// All nodes are in both domains: the snapshot cannot tell the placements apart.
	w = newWorld(t, domain.RequiredAnnotation, "attribute="+clique).node(nil, "a", "b").node(nil, "a", "b").waits(2, "gpu")
	_, status = w.generate()
	require.True(t, status.IsSuccess())
	require.Equal(t, map[string]string{"a": "a", "b": "b"}, w.placedDomains())

	// Other groups, and pods without.
	w = newWorld(t, "", "").node(nil, "a").waits(1, "gpu")
	_, status = w.generate()
	require.True(t, status.IsSuccess())
	require.Empty(t, w.placedDomains())
	require.Zero(t, workload.Current(w.snapshot, framework.NewCycleState()))
}

// placedDomains tries placements as kube-scheduler does, and returns what pods are told, by placement.
func (w *world) placedDomains() map[string]string {
	w.t.Helper()
	told := make(map[string]string)
	for _, placement := range w.made {
		require.NoError(w.t, w.snapshot.AssumePlacement(placement))
		placementState := framework.NewCycleState()
		placementState.SetPodGroupSchedulingCycle(w.state)
		for i := range w.waiting {
			state := framework.NewCycleState()
			state.SetPodGroupSchedulingCycle(w.state)
			state.SetPlacementCycleState(placementState)
			got := workload.Current(w.snapshot, state)
			require.Equal(w.t, len(placement.Nodes) < len(w.nodes), got.SomeNodes)
			if i > 0 {
				require.Equal(w.t, told[placement.Name], got.Domain.Name, "all pods are told the same")
			}
			if got.SomeDevices() {
				require.Equal(w.t, domain.Key{Attribute: clique}, got.Domain.Key)
				told[placement.Name] = got.Domain.Name
			}
		}
	}
	w.snapshot.ForgetPlacement()
	return told
}

func TestEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", "").begin()
	w.pl.features.EnableGenericWorkload = false
	events, err := w.pl.EventsToRegister(t.Context())
	require.NoError(t, err)
	require.Empty(t, events, "without the gate nothing is rejected")

	w.pl.features.EnableGenericWorkload = true
	events, err = w.pl.EventsToRegister(t.Context())
	require.NoError(t, err)
	hints := make(map[fwk.EventResource]fwk.QueueingHintFn)
	for _, event := range events {
		hints[event.Event.Resource] = event.QueueingHintFn
	}
	require.Contains(t, hints, fwk.Node)
	mine, other := w.member(builder.Pod("mine")), builder.Pod("other")
	tests := map[string]struct {
		resource      fwk.EventResource
		before, after any
		want          fwk.QueueingHint
	}{
		"own group changes":     {fwk.PodGroup, w.group, w.group, fwk.Queue},
		"other group changes":   {fwk.PodGroup, nil, &schedulingapi.PodGroup{ObjectMeta: other.ObjectMeta}, fwk.QueueSkip},
		"pod of group is gone":  {fwk.AssignedPod, mine, nil, fwk.Queue},
		"other pod is gone":     {fwk.AssignedPod, other, nil, fwk.QueueSkip},
		"a slice is published":  {fwk.ResourceSlice, nil, builder.NodeSlice("n9", builder.Device("gpu").Attr("clique", "z")).Obj(), fwk.Queue},
		"a slice, seen already": {fwk.ResourceSlice, nil, builder.NodeSlice("n9").Obj(), fwk.Queue},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := hints[test.resource](klog.Background(), mine, test.before, test.after)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

// A pod that is tried because of a slice finds it in the inventory, even if the slice's handler has not run yet.
func TestSliceIsThereBeforeThePod(t *testing.T) {
	t.Parallel()
	w := newWorld(t, domain.RequiredAnnotation, "attribute="+clique).node(nil).begin()
	_, status := w.generate()
	require.False(t, status.IsSuccess())
	slice := builder.NodeSlice("n0", builder.Device("gpu").Attr("clique", "a")).Obj()
	require.NoError(t, w.pl.handle.SharedInformerFactory().Resource().V1().ResourceSlices().Informer().GetStore().Update(slice))
	_, err := w.pl.sliceChanged(klog.Background(), nil, nil, slice)
	require.NoError(t, err)
	got, status := w.generate()
	require.True(t, status.IsSuccess(), status.Message())
	require.Equal(t, map[string][]string{"a": {"n0"}}, got)
}

// If no selector is evaluated, the first placement would be rejected.
func TestSelectorsAreEvaluatedBeforeAnyPlacementIsTried(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		racks []string
		want  bool
	}{
		"several placements": {racks: []string{"r0", "r1"}, want: true},
		"only one":           {racks: []string{"r0", "r0"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// In a bubble, an evaluation takes no time, so that none goes on in the background.
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, domain.RequiredAnnotation, "label=rack")
				for _, rack := range test.racks {
					w.node(label("rack", rack), "a")
				}
				w.waits(2, "nic")
				w.begin()
				_, status := w.generate()
				require.True(t, status.IsSuccess(), status.Message())
				// Without time to evaluate, any device counts as one that could be taken. The question starts the evaluation, so it is asked once.
				hurried := selector.WithBudget(t.Context(), selector.NewBudget(0, 0))
				could := w.pl.kindOf(w.waiting)(hurried, w.pl.poolsOf(w.nodes[0])[0])
				require.Equal(t, test.want, !could, "the only placement can wait until somebody needs it")
			})
		})
	}
}
