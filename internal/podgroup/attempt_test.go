package podgroup

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
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

	a.Reserve("p")
	a.Reserve("q")
	a.Reserve("p")
	require.Equal(t, []types.UID{"p", "q"}, a.Reserved())
	a.Unreserve("p")
	require.Equal(t, []types.UID{"q"}, a.Reserved())
}
