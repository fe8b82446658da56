package quartermaster

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// upTo returns a claim that requests n GPUs, or else fewer, down to one.
func upTo(n int64, name string) runtime.Object {
	var alternatives []*builder.RequestBuilder
	for count := n; count > 0; count-- {
		alternatives = append(alternatives, builder.Request(fmt.Sprintf("%d-gpus", count), "gpu").Count(count))
	}
	return builder.Claim(name, builder.FirstAvailable("gpu", alternatives...)).Obj()
}

// TestGangSharesWhatOneWouldLike is kubernetes/kubernetes#138765: the first pod takes all devices of the node, although
// fewer suffice, and nothing is left for the others.
func TestGangSharesWhatOneWouldLike(t *testing.T) {
	t.Parallel()
	pods := []*v1.Pod{newPod("p0", member, uses("a")), newPod("p1", member, uses("b")), newPod("p2", member, uses("c"))}
	objects := plus(gpuNodes(4, "n1"), upTo(4, "a"), upTo(4, "b"), gpus("c", 1).Obj(), pods[0], pods[1], pods[2])
	inGang(t, newPodGroup(), objects, func(t *testing.T, g *gang) {
		g.schedule(pods...)
		require.Equal(t, []string{"n1/gpu-0", "n1/gpu-1"}, deviceNames(g.claim("a")), "the first one still comes first")
		require.Equal(t, []string{"n1/gpu-2"}, deviceNames(g.claim("b")))
		require.Equal(t, []string{"n1/gpu-3"}, deviceNames(g.claim("c")))
	})
}

// TestGangPrefersFreeDevices: on another node, no pod has to accept fewer devices.
func TestGangPrefersFreeDevices(t *testing.T) {
	t.Parallel()
	pods := []*v1.Pod{newPod("p0", member, uses("a"), onlyOn("n1")), newPod("p1", member, uses("b"))}
	objects := plus(gpuNodes(2, "n1", "n2"), upTo(2, "a"), gpus("b", 1).Obj(), pods[0], pods[1])
	inGang(t, newPodGroup(), objects, func(t *testing.T, g *gang) {
		g.schedule(pods...)
		require.Equal(t, []string{"n1", "n2"}, g.nodes)
		require.Len(t, deviceNames(g.claim("a")), 2)
	})
}

// TestGangSharesClaims: two pods that share a claim accept fewer devices so that a third pod fits.
func TestGangSharesClaims(t *testing.T) {
	t.Parallel()
	pods := []*v1.Pod{newPod("p0", member, uses("a")), newPod("p1", member, uses("a")), newPod("p2", member, uses("c"))}
	objects := plus(gpuNodes(2, "n1"), upTo(2, "a"), gpus("c", 1).Obj(), pods[0], pods[1], pods[2])
	inGang(t, newPodGroup(), objects, func(t *testing.T, g *gang) {
		g.schedule(pods...)
		require.Len(t, deviceNames(g.claim("a")), 1)
		require.Len(t, deviceNames(g.claim("c")), 1)
	})
}

// TestNoPlanForAll: if not all pods fit, they are tried one after the other, and those that do not fit report why.
func TestNoPlanForAll(t *testing.T) {
	t.Parallel()
	pods := []*v1.Pod{newPod("p0", member, uses("a")), newPod("p1", member, uses("b")), newPod("p2", member, uses("many"))}
	objects := plus(gpuNodes(2, "n1"), gpus("a", 1).Obj(), gpus("b", 1).Obj(), gpus("many", 2).Obj(), pods[0], pods[1], pods[2])
	group := newPodGroup()
	group.Spec.SchedulingPolicy.Gang = &schedulingapi.GangSchedulingPolicy{MinCount: 3}
	inGang(t, group, objects, func(t *testing.T, g *gang) {
		failures := g.try(pods...)
		require.Contains(t, failures["p2"], "held by other claims")
		require.NotContains(t, failures, "p1")
		require.Zero(t, g.pl.state.Ledger.InFlightCount())
	})
}

// TestPlanLeavesOneOut: fewer pods fit than wait, and kube-scheduler may first try the one that the plan leaves out. It leaves the
// planned devices alone: otherwise the other pod would fail at Reserve, and the group with it, each time.
func TestPlanLeavesOneOut(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][]int{"planned first": {0, 1}, "planned last": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods := []*v1.Pod{newPod("p0", member, uses("a")), newPod("p1", member, uses("b"))}
			objects := plus(gpuNodes(1, "n1"), gpus("a", 1).Obj(), gpus("b", 1).Obj(), pods[0], pods[1])
			group := newPodGroup()
			group.Spec.SchedulingPolicy.Gang = &schedulingapi.GangSchedulingPolicy{MinCount: 1}
			inGang(t, group, objects, func(t *testing.T, g *gang) {
				failures := g.try(pods[order[0]], pods[order[1]])
				require.NotContains(t, failures, "p0")
				require.Contains(t, failures["p1"], "0 free")
				require.Zero(t, g.pl.state.Ledger.InFlightCount())
			})
		})
	}
}

// TestPlanComesTooLate: a device of the plan is taken meanwhile, and the pod with that device does not fit.
func TestPlanComesTooLate(t *testing.T) {
	t.Parallel()
	pods := []*v1.Pod{newPod("p0", member, uses("a")), newPod("p1", member, uses("b"))}
	objects := plus(gpuNodes(2, "n1"), upTo(2, "a"), gpus("b", 1).Obj(), gpus("foreign", 1).Obj(), pods[0], pods[1])
	inGang(t, newPodGroup(), objects, func(t *testing.T, g *gang) {
		g.beforeReserve = func(pod *v1.Pod) {
			if pod.Name == "p1" {
				g.changeClaim("foreign", allocate("n1", "gpu-1"))
				g.settle()
			}
		}
		failures := g.try(pods...)
		require.Contains(t, failures["p1"], "but claim default/foreign holds it by now")
		require.Zero(t, g.pl.state.Ledger.InFlightCount())
	})
}
