package roster

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// begun is a roster with a gang of some pods, p0 and so on.
func begun(pods, need int) *Roster {
	var seats []*Seat
	for i := range pods {
		name := fmt.Sprintf("p%d", i)
		seat := &Seat{Gang: "ns/gang", Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}, Node: "n"}
		if i > 0 {
			seat.After = []types.UID{"p0"}
		}
		seats = append(seats, seat)
	}
	r := &Roster{}
	r.Begin("ns/gang", need, seats)
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

// TestAllOrNothing: nobody is bound before all are committed.
func TestAllOrNothing(t *testing.T) {
	t.Parallel()
	r := begun(2, 2)
	require.Len(t, r.Awaits("p1"), 1)
	all, others := r.Reserve("p0")
	require.False(t, all)
	require.Equal(t, "p1", others[0].Name)
	require.Empty(t, r.Awaits("p1"))
	all, _ = r.Reserve("p1")
	require.True(t, all)
	first := r.Commit("p0")
	require.False(t, isOpen(first))
	require.Error(t, r.Verdict("p0"))
	second := r.Commit("p1")
	require.True(t, isOpen(first) && isOpen(second))
	require.NoError(t, r.Verdict("p0"))
	require.Equal(t, "p0", r.Bound("p0").Pod.Name)
	require.Len(t, r.Leave("p1"), 1, "the other one is bound")
	_, carried := r.Carried("ns/gang")
	require.False(t, carried)
}

// TestOneFails: with the last one that is needed all seats end, and whoever waits is told.
func TestOneFails(t *testing.T) {
	t.Parallel()
	r := begun(3, 2)
	r.Reserve("p0")
	waits := r.Commit("p0")
	require.Len(t, r.Leave("p2"), 1, "two are enough")
	require.Nil(t, r.Of("p2"))
	seats, _ := r.Carried("ns/gang")
	require.Equal(t, 2, seats)
	ended := r.Leave("p1")
	require.Len(t, ended, 2)
	require.Equal(t, "p1", ended[0].Pod.Name)
	require.True(t, isOpen(waits))
	require.ErrorContains(t, r.Verdict("p0"), "given up")
	require.Nil(t, r.Leave("p1"))
	require.Nil(t, r.Bound("p0"))
}

// TestLastOneLeaves: those that are committed wait for nobody else when the one that was missing is not needed.
func TestLastOneLeaves(t *testing.T) {
	t.Parallel()
	r := begun(2, 1)
	waits := r.Commit("p0")
	r.Leave("p1")
	require.True(t, isOpen(waits))
	require.NoError(t, r.Verdict("p0"))
}

// TestNoSeat: pods of no gang are not held up.
func TestNoSeat(t *testing.T) {
	t.Parallel()
	r := &Roster{}
	all, _ := r.Reserve("p")
	require.True(t, all)
	require.Nil(t, r.Commit("p"))
	require.Nil(t, r.Of("p"))
	require.Empty(t, r.Awaits("p"))
}
