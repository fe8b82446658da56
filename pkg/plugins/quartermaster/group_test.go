package quartermaster

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// members makes n pods of the group that use a claim, as far as the server is concerned.
func members(n int, edits ...func(*v1.Pod)) ([]*v1.Pod, []runtime.Object) {
	var pods []*v1.Pod
	var objects []runtime.Object
	for i := range n {
		pod := newPod(fmt.Sprintf("p%d", i), append(edits, member)...)
		pods, objects = append(pods, pod), append(objects, pod)
	}
	return pods, objects
}

// TestGangSharesAClaim is kubernetes/kubernetes#137617: the second pod waited for ever for
// the allocation that was planned for the first.
func TestGangSharesAClaim(t *testing.T) {
	t.Parallel()
	pods, objects := members(2, uses("shared"))
	inGang(t, newPodGroup(), plus(gpuNodes(2, "n1", "n2"), plus(objects, gpus("shared", 1).Obj())...), func(t *testing.T, g *gang) {
		g.schedule(pods...)
		require.ElementsMatch(t, []string{"p0", "p1"}, consumerNames(g.claim("shared")))
		require.Equal(t, []string{"n1/gpu-0"}, deviceNames(g.claim("shared")))
		require.Equal(t, []string{"n1", "n1"}, g.nodes)
	})
}

// TestLargeGangSharesAClaim is kubernetes/kubernetes#137897: users of a planned allocation
// were lost when many came and went at the same time.
func TestLargeGangSharesAClaim(t *testing.T) {
	t.Parallel()
	pods, objects := members(40, uses("shared"))
	inGang(t, newPodGroup(), plus(gpuNodes(2, "n1"), plus(objects, gpus("shared", 1).Obj())...), func(t *testing.T, g *gang) {
		g.schedule(pods...)
		require.Len(t, consumerNames(g.claim("shared")), len(pods))
	})
}

func TestGangWithOwnClaims(t *testing.T) {
	t.Parallel()
	pods := []*v1.Pod{newPod("p0", member, uses("a")), newPod("p1", member, uses("b")), newPod("p2", member, uses("c"))}
	objects := plus(gpuNodes(2, "n1", "n2"), gpus("a", 1).Obj(), gpus("b", 1).Obj(), gpus("c", 1).Obj(), pods[0], pods[1], pods[2])
	inGang(t, newPodGroup(), objects, func(t *testing.T, g *gang) {
		g.schedule(pods...)
		require.Equal(t, []string{"n1", "n1", "n2"}, g.nodes)
		for i, claim := range []string{"a", "b", "c"} {
			require.Equal(t, []string{pods[i].Name}, consumerNames(g.claim(claim)))
		}
		require.Equal(t, []string{"n1/gpu-1"}, deviceNames(g.claim("b")))
	})
}

// TestClaimIsAllocatedBeforeAllAreReserved is kubernetes/kubernetes#140269: the first pod
// has written the claim before the second is reserved again.
func TestClaimIsAllocatedBeforeAllAreReserved(t *testing.T) {
	t.Parallel()
	for name, group := range map[string][]string{"reserved for pods": nil, "reserved for the group": {"shared"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods, objects := members(2, uses("shared"))
			inGang(t, newPodGroup(group...), plus(gpuNodes(1, "n1"), plus(objects, gpus("shared", 1).Obj())...), func(t *testing.T, g *gang) {
				require.Empty(t, g.try(pods...))
				for i := range pods {
					require.NoError(t, g.reserve(i).AsError())
					require.NoError(t, g.preBind(i).AsError())
					g.bind(i)
					g.settle()
				}
				require.Equal(t, []string{"n1/gpu-0"}, deviceNames(g.claim("shared")))
				require.Zero(t, g.pl.state.Ledger.InFlightCount())
				require.True(t, g.pl.groups.Empty())
			})
		})
	}
}

// TestGangThatDoesNotFit: the last pod finds nothing. What was reserved for the others is
// gone, and nothing was written.
func TestGangThatDoesNotFit(t *testing.T) {
	t.Parallel()
	pods := []*v1.Pod{newPod("p0", member, uses("a")), newPod("p1", member, uses("b")), newPod("p2", member, uses("c"))}
	objects := plus(gpuNodes(2, "n1"), gpus("a", 1).Obj(), gpus("b", 1).Obj(), gpus("c", 1).Obj(), pods[0], pods[1], pods[2])
	inGang(t, newPodGroup(), objects, func(t *testing.T, g *gang) {
		before := g.names()
		failures := g.try(pods...)
		require.Contains(t, failures["p2"], "claim default/c")
		require.Len(t, failures, 2)
		require.Empty(t, failures[""], "there is nothing to deallocate")
		require.Zero(t, g.pl.state.Ledger.InFlightCount())
		require.Empty(t, g.writes)
		require.Equal(t, before, g.names(), "they would not fit now either")
	})
}

// TestIncompatibleNodes: the claim is planned where the second pod cannot go.
func TestIncompatibleNodes(t *testing.T) {
	t.Parallel()
	pods := []*v1.Pod{newPod("p0", member, uses("shared"), onlyOn("n1")), newPod("p1", member, uses("shared"), onlyOn("n2"))}
	objects := plus(gpuNodes(1, "n1", "n2"), gpus("shared", 1).Obj(), pods[0], pods[1])
	inGang(t, newPodGroup(), objects, func(t *testing.T, g *gang) {
		failures := g.try(pods...)
		require.Equal(t, "resourceclaim not available on the node: claim default/shared is being allocated on other nodes for the pod's group", failures["p1"])
		require.NotContains(t, failures, "p0")
		require.Zero(t, g.pl.state.Ledger.InFlightCount())
		require.Empty(t, g.writes)
		require.Nil(t, g.claim("shared").Status.Allocation)
	})
}

// TestOthersWaitForAGroupsClaim: a claim that is about to be allocated for pods of a group is for this group only. Another pod of the group
// that comes later, for which these may wait, uses it like them.
func TestOthersWaitForAGroupsClaim(t *testing.T) {
	t.Parallel()
	pods, objects := members(1, uses("shared"))
	stranger, latecomer := newPod("stranger", uses("shared")), newPod("late", member, uses("shared"))
	objects = plus(gpuNodes(1, "n1", "n2"), plus(objects, gpus("shared", 1).Obj(), stranger, latecomer)...)
	for name, failed := range map[string]bool{"the first one is bound": false, "the first one fails": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inGang(t, newPodGroup(), objects, func(t *testing.T, g *gang) {
				require.Empty(t, g.try(pods...))
				require.NoError(t, g.reserve(0).AsError())
				first := g.attempts[0]
				const why = "claim default/shared is being allocated for another pod; waiting for that to be done"
				require.Equal(t, why, g.fixture.schedule(stranger).text())

				require.Empty(t, g.try(latecomer))
				require.NoError(t, g.reserve(0).AsError())
				late := g.attempts[0]
				node := g.nodes[0]
				want := []string{"late", "stranger"}
				if failed {
					first.unreserve(node)
				} else {
					require.NoError(t, first.preBind(node).AsError())
					want = append(want, "p0")
				}
				require.NoError(t, late.preBind(node).AsError())
				g.settle()
				require.Contains(t, g.names(), "default/stranger")
				require.Empty(t, g.fixture.schedule(stranger).phase)
				require.ElementsMatch(t, want, consumerNames(g.claim("shared")))
				require.Zero(t, g.pl.state.Ledger.InFlightCount())
			})
		})
	}
}

// TestGroupsAreOff: with the gates off, a pod of a group is like any other.
func TestGroupsAreOff(t *testing.T) {
	t.Parallel()
	pod := newPod("p", member, uses("shared"))
	inCluster(t, plus(gpuNodes(1, "n1"), gpus("shared", 1).Obj(), pod), func(t *testing.T, f *fixture) {
		require.Empty(t, f.schedule(pod).phase)
		require.Equal(t, []string{"p"}, consumerNames(f.claim("shared")))
		require.Nil(t, f.pl.groups)
	})
}

// TestMemberIsDeletedMeanwhile: nothing is kept for a pod that is gone when it is reserved
// for good. The scheduler would do so for minutes, until it gives up on the gang.
func TestMemberIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	pods, objects := members(2, uses("shared"))
	inGang(t, newPodGroup("shared"), plus(gpuNodes(1, "n1"), plus(objects, gpus("shared", 1).Obj())...), func(t *testing.T, g *gang) {
		require.Empty(t, g.try(pods...))
		g.remove(pods[0])
		g.remove(pods[1])
		g.settle()
		for i := range pods {
			require.ErrorContains(t, g.reserve(i).AsError(), "the pod was deleted")
		}
		require.Zero(t, g.pl.state.Ledger.InFlightCount())
		require.True(t, g.pl.groups.Empty())
	})
}
