package groups

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestGangOfExtendedResources: pods of a gang ask for extended resources (KEP-5004), which a device backs on one node and a
// device plugin offers on the other one. One pod has to be where the device is; the other one, which is tried first, must not
// take that, although it would if it were alone.
func TestGangOfExtendedResources(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "extended", 2, 0)
	s.Devices(0, builder.Device("gpu-0"))
	s.Offer(1, s.Implicit(), "1")
	s.Create(group("gang", 2))
	var pods []string
	for _, pod := range []*corev1.Pod{s.Pod("first", nil), s.PodOnNode("second", 0, nil)} {
		builder.Extended(corev1.ResourceName(s.Implicit()), "1")(pod)
		s.createMember("gang", pod)
		pods = append(pods, pod.Name)
	}
	s.Running(pods...)
	require.Equal(t, s.Node(1), s.LivePod("first").Spec.NodeName)
	require.Nil(t, s.LivePod("first").Status.ExtendedResourceClaimStatus)
	require.NotNil(t, s.LivePod("second").Status.ExtendedResourceClaimStatus)
	s.NothingLeaked()
}
