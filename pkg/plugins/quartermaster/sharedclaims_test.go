package quartermaster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/commit"
)

// groupReservation is the consumer reference of the group in these tests.
var groupReservation = resourceapi.ResourceClaimConsumerReference{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "gang", UID: "uid-gang"}

func reservedForGroup(claim *resourceapi.ResourceClaim) {
	claim.Status.ReservedFor = append(claim.Status.ReservedFor, groupReservation)
}

// groupWorld is a group of three pods with one claim of theirs, and a GPU.
func groupWorld(gpu int, more ...runtime.Object) (*schedulingapi.PodGroup, []*v1.Pod, []runtime.Object) {
	pods, objects := members(3, uses("shared"))
	objects = plus(gpuNodes(gpu, "n1", "n2"), plus(objects, gpus("shared", 1).Obj())...)
	return newPodGroup("shared"), pods, plus(objects, more...)
}

func TestClaimOfGroupIsReservedForIt(t *testing.T) {
	t.Parallel()
	own := []*v1.Pod{newPod("p0", member, uses("shared"), uses("a")), newPod("p1", member, uses("shared"), uses("b"))}
	objects := plus(gpuNodes(2, "n1", "n2"), gpus("shared", 1).Obj(), gpus("a", 1).Obj(), gpus("b", 1).Obj(), own[0], own[1])
	pods, others := members(4, uses("c"), uses("shared"))
	inGang(t, newPodGroup("shared"), plus(objects, plus(others[2:], gpus("c", 1).Obj())...), func(t *testing.T, g *gang) {
		// One GPU of a node is shared, so that only one pod finds its own there.
		failures := g.try(own...)
		require.Contains(t, failures["p1"], "claim default/b")
		g.schedule(own[:1]...)
		require.Equal(t, []resourceapi.ResourceClaimConsumerReference{groupReservation}, g.claim("shared").Status.ReservedFor)
		require.Equal(t, []string{"p0"}, consumerNames(g.claim("a")))

		g.changeClaim("a", deallocate) // p0 keeps shared.
		g.settle()
		g.schedule(pods[2:]...)
		require.Equal(t, []resourceapi.ResourceClaimConsumerReference{groupReservation}, g.claim("shared").Status.ReservedFor)
		require.ElementsMatch(t, []string{"p2", "p3"}, consumerNames(g.claim("c")))
	})
}

// TestClaimMadeForGroup: its owner is the group, and its name is in the status of the pods.
func TestClaimMadeForGroup(t *testing.T) {
	t.Parallel()
	group := newPodGroup()
	group.Spec.ResourceClaims = []schedulingapi.PodGroupResourceClaim{{Name: "x", ResourceClaimTemplateName: ptr.To("template-x")}}
	claim := gpus("generated", 1).Obj()
	claim.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "scheduling.k8s.io/v1beta1", Kind: "PodGroup", Name: "gang", UID: "uid-gang", Controller: ptr.To(true),
	}}
	pods, objects := members(2, template("x"), made("x", "generated"))
	inGang(t, group, plus(gpuNodes(1, "n1"), plus(objects, claim)...), func(t *testing.T, g *gang) {
		require.NoError(t, g.pl.PreEnqueue(g.ctx, pods[0]).AsError())
		_, status := g.pl.SignPod(g.ctx, pods[0])
		require.Contains(t, status.Message(), "claim default/generated may be used by other pods")
		g.schedule(pods...)
		require.Equal(t, []resourceapi.ResourceClaimConsumerReference{groupReservation}, g.claim("generated").Status.ReservedFor)

		g.pl.features.EnableDRAWorkloadResourceClaims, g.pl.claims.OfGroups = false, false
		require.Contains(t, g.pl.PreEnqueue(g.ctx, pods[0]).Message(), "Pod is not owner")
	})
}

func TestGroupHasToExist(t *testing.T) {
	t.Parallel()
	group, pods, objects := groupWorld(1)
	inGang(t, group, objects, func(t *testing.T, g *gang) {
		g.group = &schedulingapi.PodGroup{}
		status := g.fixture.schedule(pods[0])
		require.Equal(t, "PreFilter", status.phase)
		require.Contains(t, status.text(), "waiting for the PodGroup to be created")
	})
}

// TestLastOneGivesTheGroupsClaimBack: pods fail after the claim was written. While one of them is in progress, or
// bound, the claim stays.
func TestLastOneGivesTheGroupsClaimBack(t *testing.T) {
	t.Parallel()
	group, pods, objects := groupWorld(1)
	inGang(t, group, objects, func(t *testing.T, g *gang) {
		require.Empty(t, g.try(pods...))
		for i := range pods {
			require.NoError(t, g.reserve(i).AsError())
		}
		require.NoError(t, g.preBind(0).AsError())
		g.attempts[0].unreserve("n1")
		require.Equal(t, []string{"gang"}, consumerNames(g.claim("shared")), "the others rely on it")
		g.attempts[1].unreserve("n1")
		require.Equal(t, []string{"n1/gpu-0"}, deviceNames(g.claim("shared")), "the last one may have seen it")
		g.attempts[2].unreserve("n1")
		require.Nil(t, g.claim("shared").Status.Allocation)
		require.Empty(t, g.claim("shared").Status.ReservedFor)
		require.True(t, g.pl.groups.Empty())
		require.Zero(t, g.pl.state.Ledger.InFlightCount())
		require.Equal(t, []string{
			"Normal DevicesAllocated Allocated gpu.example.com/n1/gpu-0 on node n1 for PodGroup gang",
			"Normal DevicesReleased Released gpu.example.com/n1/gpu-0 on node n1 because pod p2 was not bound",
		}, g.events(), "told once, for all")

		g.settle()
		g.schedule(pods...)
	})
}

func TestBoundMemberKeepsTheGroupsClaim(t *testing.T) {
	t.Parallel()
	group, pods, objects := groupWorld(1)
	inGang(t, group, objects, func(t *testing.T, g *gang) {
		require.Empty(t, g.try(pods...))
		for i := range pods {
			require.NoError(t, g.reserve(i).AsError())
			require.NoError(t, g.preBind(i).AsError())
		}
		g.bind(1)
		g.attempts[0].unreserve("n1")
		g.attempts[2].unreserve("n1")
		require.Equal(t, []string{"gang"}, consumerNames(g.claim("shared")))
		require.Equal(t, []string{"n1/gpu-0"}, deviceNames(g.claim("shared")))
		require.True(t, g.pl.groups.Empty())
	})
}

// TestLateUndoKeepsMembersOut: the server is down when the group's claim must be released. No pod may rely on the claim
// before that is done.
func TestLateUndoKeepsMembersOut(t *testing.T) {
	t.Parallel()
	group, pods, objects := groupWorld(1)
	inGang(t, group, objects, func(t *testing.T, g *gang) {
		require.Empty(t, g.try(pods[:2]...))
		require.NoError(t, g.reserve(0).AsError())
		require.NoError(t, g.reserve(1).AsError())
		require.NoError(t, g.preBind(0).AsError())
		g.settle()
		// It has passed PreFilter before anything goes wrong.
		late := &gang{fixture: g.fixture, group: group}
		require.Empty(t, late.try(pods[2]))

		g.attempts[1].unreserve("n1")
		g.down()
		g.attempts[0].unreserve("n1")
		require.ErrorIs(t, late.reserve(0).AsError(), errUndoing)
		require.Contains(t, late.try(pods[2])["p2"], "could not be undone yet")

		g.recoverNow()
		time.Sleep(2 * commit.UndoInterval)
		g.settle()
		require.Nil(t, g.claim("shared").Status.Allocation)
		require.Empty(t, g.claim("shared").Status.ReservedFor)
		require.Contains(t, g.names(), "default/p2", "nothing else wakes it")
		g.schedule(pods...)
	})
}

// TestGroupsClaimHasLost: another claim was allocated the devices first. Each member finds that out for itself, and the
// last one releases the claim.
func TestGroupsClaimHasLost(t *testing.T) {
	t.Parallel()
	group, pods, objects := groupWorld(1, gpus("conflicting", 1).Obj())
	inGang(t, group, objects, func(t *testing.T, g *gang) {
		require.Empty(t, g.try(pods[:2]...))
		require.NoError(t, g.reserve(0).AsError())
		require.NoError(t, g.reserve(1).AsError())
		g.fail(fault{on: "update/status", claim: "shared", before: func() { g.otherInstanceAllocates("conflicting", "n1", "gpu-0") }})
		require.ErrorIs(t, g.preBind(0).AsError(), commit.ErrConflict)
		require.Equal(t, []string{"gang"}, consumerNames(g.claim("shared")), "the other one is not there yet")
		require.ErrorIs(t, g.preBind(1).AsError(), commit.ErrConflict)
		require.Nil(t, g.claim("shared").Status.Allocation)
		require.Empty(t, g.claim("shared").Status.ReservedFor)

		g.settle()
		g.schedule(pods...)
		require.Equal(t, []string{"n2/gpu-0"}, deviceNames(g.claim("shared")))
	})
}

// TestRestartWithinAGang: the scheduler dies when one pod is bound, and another one has
// written what it had to write. The next one finds that and goes on.
func TestRestartWithinAGang(t *testing.T) {
	t.Parallel()
	for name, claims := range map[string][]string{"reserved for pods": nil, "reserved for the group": {"shared"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			group, pods, objects := groupWorld(1)
			group.Spec = newPodGroup(claims...).Spec
			inGang(t, group, objects, func(t *testing.T, g *gang) {
				require.Empty(t, g.try(pods...))
				for i := range pods {
					require.NoError(t, g.reserve(i).AsError())
				}
				require.NoError(t, g.preBind(0).AsError())
				g.bind(0)
				require.NoError(t, g.preBind(1).AsError())

				again := g.restart().among(group)
				again.schedule(pods[1:]...)
				require.Equal(t, []string{"n1/gpu-0"}, deviceNames(again.claim("shared")))
				if len(claims) > 0 {
					require.Equal(t, []string{"gang"}, consumerNames(again.claim("shared")))
				} else {
					require.ElementsMatch(t, []string{"p0", "p1", "p2"}, consumerNames(again.claim("shared")))
				}
			})
		})
	}
}

// TestPlanOfOneThatFailsStaysWithTheOthers: reserved for the pods themselves. The first
// one releases what it has written; the second one needs the same and writes it again.
func TestPlanOfOneThatFailsStaysWithTheOthers(t *testing.T) {
	t.Parallel()
	_, pods, objects := groupWorld(1, gpus("other", 1).Obj(), newPod("other", uses("other")))
	inGang(t, newPodGroup(), objects, func(t *testing.T, g *gang) {
		require.Empty(t, g.try(pods[:2]...))
		require.NoError(t, g.reserve(0).AsError())
		require.NoError(t, g.reserve(1).AsError())
		require.NoError(t, g.preBind(0).AsError())
		g.attempts[0].unreserve("n1")
		g.settle()
		require.Nil(t, g.claim("shared").Status.Allocation)
		other := g.mustBegin(g.pod("other")).filter()
		require.Contains(t, other.reasons["n1"], "held by another claim", "the second one is going to need the device")

		require.NoError(t, g.preBind(1).AsError())
		require.Equal(t, []string{"p1"}, consumerNames(g.claim("shared")))
		require.Equal(t, []string{"n1/gpu-0"}, deviceNames(g.claim("shared")))
		require.Zero(t, g.pl.state.Ledger.InFlightCount())
	})
}
