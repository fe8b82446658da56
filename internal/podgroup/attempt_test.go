package podgroup

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/internal/gang/roster"
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
	seat := &roster.Seat{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "p"}}, Node: "n"}
	a.Plans([]*roster.Seat{seat})
	require.Same(t, seat, a.Seat("p"))
	require.Nil(t, a.Seat("q"))
}
