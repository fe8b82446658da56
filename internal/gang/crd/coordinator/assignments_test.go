package coordinator

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/planning"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestAssignmentEndsAfterTheNextOneBegan: the assignments of a plan that is given up end one by one, and the gang may have been planned
// again meanwhile. A claim that is still to be created has another UID in each plan.
func TestAssignmentEndsAfterTheNextOneBegan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		pod, group := builder.Pod("p"), &Group{Name: "ns/gang", UID: "uid-gang"}
		plan := func(claim string) *planning.Assignment {
			made := builder.Claim(claim).Obj()
			return &planning.Assignment{Gang: group.Name, Pod: pod, Node: "node", Claims: []*resourceapi.ResourceClaim{made}, Made: made,
				Allocations: map[types.UID]*resourceapi.AllocationResult{made.UID: builder.Claim(claim).Allocated("pool", "device-"+claim).Status.Allocation}}
		}
		first, second := plan("first"), plan("second")
		require.NoError(t, w.hold(group, []*planning.Assignment{first}))
		require.NoError(t, w.hold(group, []*planning.Assignment{second}))
		w.end(first)
		require.NotNil(t, w.Ledger.InFlight(second.Made.UID), "it is not that one that has ended")
		w.end(second)
		require.Zero(t, w.Ledger.InFlightCount())
		require.Empty(t, w.held)
		require.Equal(t, []string{"first", "second"}, w.givenUp)
	})
}

// TestGivenUp: of a plan that cannot be kept as a whole, pods outside the gang hear of the claims that were in flight, and only of those.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		plan := func(claim, device string) *planning.Assignment {
			of := builder.Claim(claim).Obj()
			return &planning.Assignment{Gang: "ns/gang", Pod: builder.Pod("p-" + claim), Node: "node", Claims: []*resourceapi.ResourceClaim{of},
				Allocations: map[types.UID]*resourceapi.AllocationResult{of.UID: builder.Claim(claim).Allocated("pool", device).Status.Allocation}}
		}
		require.NoError(t, w.hold(&Group{Name: "ns/other", UID: "other"}, []*planning.Assignment{plan("others", "gpu-1")}))
		err := w.hold(&Group{Name: "ns/gang", UID: "gang"}, []*planning.Assignment{plan("a", "gpu-0"), plan("b", "gpu-1"), plan("c", "gpu-2")})
		require.Error(t, err)
		require.Equal(t, []string{"a"}, w.givenUp)
		require.Equal(t, 1, w.Ledger.InFlightCount())
	})
}

// TestPostponed: a pod that must wait for another component keeps its assignment, however often it is tried.
func TestPostponed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.group("gang", 1)
		w.pods("gang", 0, 1)
		for range 3 * mostTries {
			cs := framework.NewCycleState()
			assignment, err := w.Begin(t.Context(), cs, w.pod("gang-0"), nil, w.plan)
			require.NoError(t, err)
			require.NotNil(t, assignment)
			w.Postponed(cs)
		}
		require.Equal(t, 1, w.planned())
		w.delete("gang-0")
		require.Zero(t, w.Ledger.InFlightCount())
	})
}
