package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestPodGroupPostFilter: a group of two pods does not fit, because p1 has to go to n2 and
// finds nothing there.
func TestPodGroupPostFilter(t *testing.T) {
	t.Parallel()
	everywhere := func(claim *resourceapi.ResourceClaim) { claim.Status.Allocation.NodeSelector = nil }
	tests := map[string]struct {
		// x is allocated on n1 and used by both pods; y is not allocated, and n2 is full.
		x     []func(*resourceapi.ResourceClaim)
		group []string
		bound bool // another pod of the group is on a node
		late  bool // and the scheduler does not know
		// freed: x is not allocated any more, and what is said about that.
		freed bool
		// unreserved: the group has no reservation any more, but others have.
		unreserved bool
		message    string
	}{
		"unreserved":                                      {freed: true, message: "released to find devices elsewhere: claims default/x"},
		"reserved for the pod":                            {x: edits(reservedFor("p1")), freed: true, message: "released to find devices elsewhere: claims default/x"},
		"reserved for another pod":                        {x: edits(reservedFor("p0", "other"))},
		"reserved for the group":                          {x: edits(reservedForGroup), group: []string{"x"}, freed: true, message: "released to find devices elsewhere: claims default/x"},
		"a member is bound":                               {x: edits(reservedForGroup), group: []string{"x"}, bound: true},
		"for the group and others":                        {x: edits(reservedForGroup, reservedFor("other")), group: []string{"x"}, unreserved: true, message: "released to find devices elsewhere: claims default/x"},
		"usable, but for nobody":                          {x: edits(everywhere, reservedForGroup), group: []string{"x"}, freed: true, message: "released to find devices elsewhere: claims default/x"},
		"usable, and a member is bound by a lost binding": {x: edits(everywhere, reservedForGroup), group: []string{"x"}, bound: true, late: true},
		"usable, reserved for others":                     {x: edits(everywhere, reservedFor("other")), group: []string{"x"}},
		"usable, of the pods":                             {x: edits(everywhere)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := with(gpus("x", 1).Allocated("n1", "gpu-0"), append([]func(*resourceapi.ResourceClaim){onNode("n1")}, test.x...)...)
			taken := gpus("taken", 1).Allocated("n2", "gpu-0")
			pods := []*v1.Pod{newPod("p0", member, uses("x")), newPod("p1", member, uses("x"), uses("y"), onlyOn("n2"))}
			sibling := newPod("sibling", member, uses("x"))
			if test.bound {
				sibling.Spec.NodeName = "n1"
			}
			objects := plus(gpuNodes(1, "n1", "n2"), x, gpus("y", 1).Obj(), taken, pods[0], pods[1], sibling)
			inGang(t, newPodGroup(test.group...), objects, func(t *testing.T, g *gang) {
				g.late = test.late
				failures := g.try(pods...)
				require.NotEmpty(t, failures["p1"])
				require.Equal(t, test.message, failures[""])
				require.Equal(t, test.freed, g.claim("x").Status.Allocation == nil)
				require.Zero(t, g.pl.state.Ledger.InFlightCount())
				switch {
				case test.unreserved:
					require.Equal(t, []string{"other"}, consumerNames(g.claim("x")))
				case !test.freed:
					require.Empty(t, g.writes)
				}
			})
		})
	}
}

// TestPodGroupPostFilterWhileEvaluating: the group keeps its claim as long as it is not known
// whether there are devices for another one of its pods.
func TestPodGroupPostFilterWhileEvaluating(t *testing.T) {
	t.Parallel()
	x := with(gpus("x", 1).Allocated("n1", "other"), onNode("n1"), reservedForGroup)
	first := newPod("first", member, uses("x"), uses("c"))
	inGang(t, newPodGroup("x"), plus(indexed("n0", "n1"), x, choosy("1"), first), func(t *testing.T, g *gang) {
		g.pl.attemptBudget = 0
		g.pl.state.NodeCache.AtOnce = 0 // Filter is to be the first one to ask.
		require.NotEmpty(t, g.try(first))
		require.NotNil(t, g.claim("x").Status.Allocation)
		require.Empty(t, g.writes)
	})
}

// TestPodGroupPostFilterLeavesClaimsOfPodsThatAreBeingBound: a pod that comes late does
// not fit where the others are going.
func TestPodGroupPostFilterLeavesClaimsOfPodsThatAreBeingBound(t *testing.T) {
	t.Parallel()
	x := with(gpus("x", 1).Allocated("n1", "gpu-0"), onNode("n1"))
	first, late := newPod("first", member, uses("x")), newPod("late", member, uses("x"), onlyOn("n2"))
	inGang(t, newPodGroup("x"), plus(gpuNodes(1, "n1", "n2"), x, first, late), func(t *testing.T, g *gang) {
		require.Empty(t, g.try(first))
		require.NoError(t, g.reserve(0).AsError())
		before := *g
		require.NotEmpty(t, g.try(late))
		require.NotNil(t, g.claim("x").Status.Allocation)
		require.NoError(t, before.preBind(0).AsError())
		before.bind(0)
	})
}

func TestPodGroupPostFilterDoesNotApply(t *testing.T) {
	t.Parallel()
	x := with(gpus("x", 1).Allocated("n1", "gpu-0"), onNode("n1"))
	pod := newPod("p0", member, uses("x"), onlyOn("n2"))
	inGang(t, newPodGroup("x"), plus(gpuNodes(1, "n1", "n2"), x, pod), func(t *testing.T, g *gang) {
		g.pl.features.EnableTopologyAwareWorkloadScheduling = true
		g.group.Spec.SchedulingConstraints = &schedulingapi.PodGroupSchedulingConstraints{}
		require.Empty(t, g.try(pod)[""], "nodes are chosen for the group as a whole")
		require.NotNil(t, g.claim("x").Status.Allocation)

		_, status := g.pl.PodGroupPostFilter(g.ctx, g.state, compositeInfo{groupInfo{gang: g, pods: []*v1.Pod{pod}}}, nil)
		require.Equal(t, fwk.Unschedulable, status.Code())
		require.NotNil(t, g.claim("x").Status.Allocation)
	})
}

type compositeInfo struct{ groupInfo }

func (compositeInfo) GetType() fwk.EntityKeyType { return fwk.CompositePodGroupKeyType }

// TestPodGroupPostFilterFails: the server does not permit the deallocation.
func TestPodGroupPostFilterFails(t *testing.T) {
	t.Parallel()
	x := with(gpus("x", 1).Allocated("n1", "gpu-0"), onNode("n1"))
	pod := newPod("p0", member, uses("x"), onlyOn("n2"))
	inGang(t, newPodGroup(), plus([]runtime.Object{builder.Class("gpu"), builder.Node("n2")}, x, pod), func(t *testing.T, g *gang) {
		g.fail(fault{on: "update/status", err: forbidden()})
		g.postFilter = fwk.Error
		require.Contains(t, g.try(pod)[""], "free the devices of claim default/x (they fit no node): claim default/x: asked to deallocate an allocation of gpu.example.com/n1/gpu-0 but the server refused to store that: resourceclaims.resource.k8s.io \"claim\" is forbidden: not now")
	})
}
