package coordinator

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/gang/planning"
)

// begun returns a progress with a gang of pods p0, p1 and so on.
func begun(pods, need int) *Progress {
	var assignments []*planning.Assignment
	for i := range pods {
		name := fmt.Sprintf("p%d", i)
		assignment := &planning.Assignment{Gang: "ns/gang", Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}, Node: "n"}
		if i > 0 {
			assignment.After = []types.UID{"p0"}
		}
		assignments = append(assignments, assignment)
	}
	r := &Progress{}
	r.Begin("ns/gang", need, assignments)
	return r
}

func isOpen(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

// reserve and commit move a pod to the next phase.
func reserve(t *testing.T, r *Progress, pod types.UID) (all bool, others []*v1.Pod) {
	t.Helper()
	all, others, err := r.Reserve(r.Of(pod))
	require.NoError(t, err)
	return all, others
}

func commit(t *testing.T, r *Progress, pod types.UID) <-chan struct{} {
	t.Helper()
	settled, err := r.Commit(r.Of(pod))
	require.NoError(t, err)
	return settled
}

// TestAllOrNothing: no pod is bound before all are committed.
func TestAllOrNothing(t *testing.T) {
	t.Parallel()
	r := begun(2, 2)
	p0 := r.Of("p0")
	require.Len(t, r.Awaits("p1"), 1)
	all, others := reserve(t, r, "p0")
	require.False(t, all)
	require.Equal(t, "p1", others[0].Name, "it waited for this one")
	require.Empty(t, r.Awaits("p1"))
	all, _ = reserve(t, r, "p1")
	require.True(t, all)
	first := commit(t, r, "p0")
	require.False(t, isOpen(first))
	require.Error(t, r.Verdict(p0))
	second := commit(t, r, "p1")
	require.True(t, isOpen(first) && isOpen(second))
	require.NoError(t, r.Verdict(p0))
	require.True(t, r.Bound(p0))
	ended, _ := r.Leave(r.Of("p1"))
	require.Len(t, ended, 1, "the other one is bound")
	_, carried := r.Carried("ns/gang")
	require.False(t, carried)
}

// TestOneFails: if too few pods are left, all assignments end, and waiting pods are told.
func TestOneFails(t *testing.T) {
	t.Parallel()
	r := begun(3, 2)
	p0, p1 := r.Of("p0"), r.Of("p1")
	reserve(t, r, "p0")
	waits := commit(t, r, "p0")
	ended, _ := r.Leave(r.Of("p2"))
	require.Len(t, ended, 1, "two are enough")
	require.Nil(t, r.Of("p2"))
	assignments, _ := r.Carried("ns/gang")
	require.Equal(t, 2, assignments)
	require.True(t, r.IsPlanned(p1))
	require.False(t, r.IsPlanned(p0))
	ended, _ = r.Leave(p1)
	require.Len(t, ended, 2)
	require.Equal(t, "p1", ended[0].Pod.Name)
	require.True(t, isOpen(waits))
	require.ErrorContains(t, r.Verdict(p0), "given up")
	_, _, err := r.Reserve(p1)
	require.ErrorContains(t, err, "given up", "its attempt may have got no further than that")
	_, err = r.Commit(p1)
	require.ErrorContains(t, err, "given up", "nor must it be bound")
	ended, reserved := r.Leave(p1)
	require.Empty(t, ended)
	require.Empty(t, reserved)
	require.False(t, r.IsPlanned(p1))
	require.False(t, r.Bound(p0))
}

// TestAssignmentOfBefore: an attempt that began with an earlier plan does not take the assignment of the next one.
func TestAssignmentOfBefore(t *testing.T) {
	t.Parallel()
	r := begun(2, 2)
	before := r.Of("p0")
	r.Leave(r.Of("p1"))
	after := &planning.Assignment{Gang: "ns/gang", Pod: before.Pod, Node: "m"}
	r.Begin("ns/gang", 1, []*planning.Assignment{after})
	_, err := r.Commit(before)
	require.ErrorContains(t, err, "given up")
	require.ErrorContains(t, r.Verdict(before), "given up")
	ended, _ := r.Leave(before)
	require.Empty(t, ended, "the next plan goes on")
	require.True(t, isOpen(commit(t, r, "p0")))
	require.NoError(t, r.Verdict(after))
}

// TestLastOneLeaves: committed pods stop waiting when the last missing pod leaves and is not needed.
func TestLastOneLeaves(t *testing.T) {
	t.Parallel()
	r := begun(2, 1)
	p0 := r.Of("p0")
	waits := commit(t, r, "p0")
	r.Leave(r.Of("p1"))
	require.True(t, isOpen(waits))
	require.NoError(t, r.Verdict(p0))
}

// TestUses: a claim is in use as long as any pod with an assignment uses it.
func TestUses(t *testing.T) {
	t.Parallel()
	r := &Progress{}
	assignment := func(pod types.UID) *planning.Assignment {
		return &planning.Assignment{Gang: "ns/gang", Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: pod}}, Allocations: map[types.UID]*resourceapi.AllocationResult{"c": {}}}
	}
	r.Begin("ns/gang", 2, []*planning.Assignment{assignment("p0"), assignment("p1")})
	require.True(t, r.Uses("ns/gang", "c"))
	require.False(t, r.Uses("ns/gang", "d"))
	r.Bound(r.Of("p0"))
	require.True(t, r.Uses("ns/gang", "c"))
	r.Bound(r.Of("p1"))
	require.False(t, r.Uses("ns/gang", "c"))
}

// TestNoAssignment: calls for pods without a gang do nothing.
func TestNoAssignment(t *testing.T) {
	t.Parallel()
	r := &Progress{}
	require.Nil(t, r.Of("p"))
	require.Empty(t, r.Awaits("p"))
}

// TestNobodyElseIsWaitedFor: Leave returns the pods that waited only for the pod that leaves.
func TestNobodyElseIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before   func(t *testing.T, r *Progress)
		leaves   types.UID
		reserved int
	}{
		"all others are reserved": {func(t *testing.T, r *Progress) { reserve(t, r, "p0"); reserve(t, r, "p1") }, "p2", 2},
		"one is not":              {func(t *testing.T, r *Progress) { reserve(t, r, "p0") }, "p2", 0},
		"one is committed":        {func(t *testing.T, r *Progress) { reserve(t, r, "p0"); commit(t, r, "p1") }, "p2", 2},
		"they are being bound": {func(t *testing.T, r *Progress) {
			for _, pod := range []types.UID{"p0", "p1", "p2"} {
				commit(t, r, pod)
			}
		}, "p2", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := begun(3, 2)
			test.before(t, r)
			ended, reserved := r.Leave(r.Of(test.leaves))
			require.Len(t, ended, 1)
			require.Len(t, reserved, test.reserved)
		})
	}
}

// TestAbandon: all assignments end, unless the pods are about to be bound.
func TestAbandon(t *testing.T) {
	t.Parallel()
	r := begun(2, 2)
	p0 := r.Of("p0")
	waits := commit(t, r, "p0")
	require.Len(t, r.Abandon("ns/gang"), 2)
	require.True(t, isOpen(waits))
	require.ErrorContains(t, r.Verdict(p0), "given up")
	require.Empty(t, r.Abandon("ns/gang"))

	r = begun(2, 2)
	commit(t, r, "p0")
	commit(t, r, "p1")
	require.Empty(t, r.Abandon("ns/gang"))
	require.NoError(t, r.Verdict(r.Of("p0")))
}

// TestTry: attempts are counted for each assignment.
func TestTry(t *testing.T) {
	t.Parallel()
	r := begun(2, 2)
	p0 := r.Of("p0")
	require.Equal(t, 1, r.Try(p0))
	require.Equal(t, 2, r.Try(p0))
	require.Equal(t, 1, r.Try(r.Of("p1")))
	r.Abandon("ns/gang")
	require.Zero(t, r.Try(p0))
}
