package quartermaster

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
)

// upTo is a claim that wants n GPUs, or else fewer, down to one.
func upTo(n int64, name string) runtime.Object {
	var alternatives []*builder.RequestBuilder
	for count := n; count > 0; count-- {
		alternatives = append(alternatives, builder.Request(fmt.Sprintf("%d-gpus", count), "gpu").Count(count))
	}
	return builder.Claim(name, builder.FirstAvailable("gpu", alternatives...)).Obj()
}

// TestGangSharesWhatOneWouldLike is kubernetes/kubernetes#138765: the first pod takes all
// devices of the node, although it could do with fewer, and nothing is left for the others.
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

// TestGangPrefersFreeDevices: on another node, nobody has to give anything up.
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

// TestGangSharesClaims: two pods that use the same claim make do with less of it for the sake of a third one.
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

// TestNoPlanForAll: if there is no way for all, the pods are tried one after the other, and those that do not fit say why.
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

// TestPlanComesTooLate: what was to be taken together is gone. The others keep what
// they had.
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
