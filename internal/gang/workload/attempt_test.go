package workload

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/gang/planning"
)

func TestAttempt(t *testing.T) {
	t.Parallel()
	a := NewAttempt[string]()
	require.Empty(t, a.Member("p"))
	a.SetMember("p", "first")
	a.SetMember("p", "second")
	require.Equal(t, "second", a.Member("p"), "the latest state")

	require.True(t, a.BeginPlan())
	require.False(t, a.BeginPlan(), "once in an attempt")
	require.Nil(t, a.Assignment("p"))
	assignment := &planning.Assignment{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "p"}}, Node: "n"}
	a.Plans([]*planning.Assignment{assignment})
	require.Same(t, assignment, a.Assignment("p"))
	require.Nil(t, a.Assignment("q"))
	require.Empty(t, a.PlannedForOthers("p"), "its own")
	require.Empty(t, a.PlannedForOthers("q"), "p was tried")
}

// TestPlannedForOthers: a pod that the plan leaves out knows what is planned for pods that come after it.
func TestPlannedForOthers(t *testing.T) {
	t.Parallel()
	a := NewAttempt[string]()
	require.Empty(t, a.PlannedForOthers("q"), "no plan")
	assignment := &planning.Assignment{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "p"}}, Node: "n"}
	a.Plans([]*planning.Assignment{assignment})
	a.SetMember("q", "tried")
	require.Equal(t, []*planning.Assignment{assignment}, a.PlannedForOthers("q"))
	require.Empty(t, a.PlannedForOthers("p"))
	a.SetMember("p", "tried")
	require.Empty(t, a.PlannedForOthers("q"))
}

// TestAssignmentsInTurn: if the order matters, pods that are alike get the assignments of a plan in the order in which they ask,
// each with its own claims, and keep them.
func TestAssignmentsInTurn(t *testing.T) {
	t.Parallel()
	var assignments []*planning.Assignment
	var before []types.UID
	for _, name := range []string{"a", "b", "c"} {
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{UID: types.UID("claim-" + name)}}
		assignments = append(assignments, &planning.Assignment{
			Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(name)}}, Node: "node-" + name, After: before,
			Claims:      []*resourceapi.ResourceClaim{claim},
			Allocations: map[types.UID]*resourceapi.AllocationResult{claim.UID: {NodeSelector: &v1.NodeSelector{}}},
		})
		before = append(before, types.UID(name))
	}
	a := NewAttempt[string]()
	a.Plans(assignments)
	for i, pod := range []types.UID{"c", "a", "b"} {
		for range 2 {
			assignment := a.Assignment(pod)
			require.Equal(t, pod, assignment.Pod.UID)
			require.Equal(t, assignments[i].Node, assignment.Node)
			require.Len(t, assignment.Allocations, 1)
			require.Same(t, assignments[i].Allocations[assignments[i].Claims[0].UID], assignment.Allocations["claim-"+pod])
		}
	}
	require.Nil(t, a.Assignment("d"))

	unordered := NewAttempt[string]()
	for _, assignment := range assignments {
		assignment.After = nil
	}
	unordered.Plans(assignments)
	require.Same(t, assignments[2], unordered.Assignment("c"))
}
