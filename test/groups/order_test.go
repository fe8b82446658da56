package groups

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// createAlike creates pods of a group that are told apart from all others by a label, and returns their names.
func (s *space) createAlike(group string, count int, uses []corev1.PodResourceClaim, edit func(*corev1.Pod, *metav1.LabelSelector)) (names []string) {
	s.T.Helper()
	for i := range count {
		member := s.Pod(fmt.Sprintf("%s-%d", group, i), uses)
		metav1.SetMetaDataLabel(&member.ObjectMeta, "app", group)
		edit(member, &metav1.LabelSelector{MatchLabels: map[string]string{"app": group}})
		s.createMember(group, member)
		names = append(names, member.Name)
	}
	return names
}

// TestSpreadGang: the pods of a gang are spread evenly over nodes. Each would like two devices, and there are just two
// for each two pods: whoever comes first must not take both.
func TestSpreadGang(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "spread", 2, 2)
	s.Create(builder.Claim("some", builder.FirstAvailable("gpu", s.Want(2).Named("two"), s.Want(1).Named("one"))).Template(), group("gang", 4))
	pods := s.createAlike("gang", 4, builder.FromTemplate("some"), func(pod *corev1.Pod, alike *metav1.LabelSelector) {
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: alike,
		}}
	})
	s.Running(pods...)
	on := make(map[string]int)
	for _, pod := range pods {
		on[s.LivePod(pod).Spec.NodeName]++
		require.Len(t, s.DeviceNames(pod), 1)
	}
	require.Equal(t, map[string]int{s.Node(0): 2, s.Node(1): 2}, on)
}

// TestGangStaysTogether: the pods of a gang have to run in one rack, whichever it is. Only one has enough devices, and the
// other one is where a single pod would be put.
func TestGangStaysTogether(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "together", 2, 0)
	const rack = "topology.example.com/rack"
	for node, devices := range []int{3, 4} {
		s.LabelNode(node, rack, s.Node(node))
		s.Devices(node, harness.Numbered(devices)...)
	}
	s.Create(builder.Claim("one", s.Want(1)).Template(), group("gang", 4))
	pods := s.createAlike("gang", 4, builder.FromTemplate("one"), func(pod *corev1.Pod, alike *metav1.LabelSelector) {
		pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: rack, LabelSelector: alike}},
		}}
	})
	s.Running(pods...)
	for _, pod := range pods {
		require.Equal(t, s.Node(1), s.LivePod(pod).Spec.NodeName)
	}
}
