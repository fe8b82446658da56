package preemption

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

func prioritized(priority int32, edits ...func(*v1.Pod)) *v1.Pod {
	pod := builder.Pod("p", edits...)
	pod.Spec.Priority = &priority
	return pod
}

func withClaim(pod *v1.Pod) {
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "c", ResourceClaimName: ptr.To("c")}}
}

func TestPriorities(t *testing.T) {
	t.Parallel()
	p := NewPriorities()
	require.False(t, p.AnyBelow(1000), "there are no pods")
	p.Changed(nil, prioritized(5))
	require.False(t, p.AnyBelow(1000), "it has no devices")
	p.Changed(nil, prioritized(5, withClaim))
	require.True(t, p.AnyBelow(6))
	require.False(t, p.AnyBelow(5))
	p.Changed(nil, prioritized(-1, builder.Container("c", "example.com/gpu", "1")))
	require.True(t, p.AnyBelow(0), "devices may back its extended resource")
	ended := prioritized(-1, builder.Container("c", "example.com/gpu", "1"))
	ended.Status.Phase = v1.PodSucceeded
	p.Changed(prioritized(-1, builder.Container("c", "example.com/gpu", "1")), ended)
	require.False(t, p.AnyBelow(5))
	p.Changed(prioritized(5, withClaim), prioritized(5, withClaim))
	require.True(t, p.AnyBelow(6))
	p.Changed(prioritized(5, withClaim), nil)
	require.False(t, p.AnyBelow(6))
	p.Changed(nil, prioritized(2000, withClaim, builder.InGroup("g")))
	require.True(t, p.AnyBelow(-1000), "the priority of its group is not known")
}
