package workload

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/gang/coordinator"
)

func TestAttempt(t *testing.T) {
	t.Parallel()
	a := NewAttempt[string]()
	require.Empty(t, a.Member("p"))
	a.SetMember("p", "first")
	a.SetMember("p", "second")
	require.Equal(t, "second", a.Member("p"), "the latest state")

	ours, another := &resourceapi.AllocationResult{}, &resourceapi.AllocationResult{NodeSelector: nil}
	require.True(t, a.Empty())
	a.Plan("c", ours)
	require.True(t, a.Planned("c", ours))
	require.False(t, a.Planned("c", another), "planned by another attempt")
	require.False(t, a.Planned("d", ours))
	require.False(t, a.Empty())
	a.Unplan("c")
	require.False(t, a.Planned("c", ours))
	require.True(t, a.Empty())

	require.True(t, a.BeginPlan())
	require.False(t, a.BeginPlan(), "once in an attempt")
	require.Nil(t, a.Seat("p"))
	seat := &coordinator.Seat{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "p"}}, Node: "n"}
	a.Plans([]*coordinator.Seat{seat})
	require.Same(t, seat, a.Seat("p"))
	require.Nil(t, a.Seat("q"))
}

// TestSeatsInTurn: if the order matters, pods that are alike get the seats of a plan in the order in which they ask,
// each with its own claims, and keep them.
func TestSeatsInTurn(t *testing.T) {
	t.Parallel()
	var seats []*coordinator.Seat
	var before []types.UID
	for _, name := range []string{"a", "b", "c"} {
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{UID: types.UID("claim-" + name)}}
		seats = append(seats, &coordinator.Seat{
			Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(name)}}, Node: "node-" + name, After: before,
			Claims:      []*resourceapi.ResourceClaim{claim},
			Allocations: map[types.UID]*resourceapi.AllocationResult{claim.UID: {NodeSelector: &v1.NodeSelector{}}},
		})
		before = append(before, types.UID(name))
	}
	a := NewAttempt[string]()
	a.Plans(seats)
	for i, pod := range []types.UID{"c", "a", "b"} {
		for range 2 {
			seat := a.Seat(pod)
			require.Equal(t, pod, seat.Pod.UID)
			require.Equal(t, seats[i].Node, seat.Node)
			require.Len(t, seat.Allocations, 1)
			require.Same(t, seats[i].Allocations[seats[i].Claims[0].UID], seat.Allocations["claim-"+pod])
		}
	}
	require.Nil(t, a.Seat("d"))

	unordered := NewAttempt[string]()
	for _, seat := range seats {
		seat.After = nil
	}
	unordered.Plans(seats)
	require.Same(t, seats[2], unordered.Seat("c"))
}
