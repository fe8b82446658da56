package upgrade

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// TestFencedBefore: a claim has the annotation under which releases before the previous one noted that a pod was tried
// again, and either release goes on with it.
func TestFencedBefore(t *testing.T) {
	needsPrevious(t, "scheduler")
	t.Parallel()
	for _, r := range []release{previous, ours} {
		t.Run(string(r), func(t *testing.T) {
			t.Parallel()
			const fence, fenceBefore = "quartermaster-dra.github.io/fence", "quartermaster/fence"
			s := &space{Space: cluster.NewSpace(t, "fenced-"+string(r), "", 1)}
			s.Devices(0, harness.Numbered(1)...)
			claim := builder.Claim("claim", s.Want(1)).Obj()
			claim.Annotations = map[string]string{fenceBefore: "before", "example.com/theirs": "stays"}
			pod := s.Pod("pod", builder.Uses(claim.Name))
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/gate"}}
			s.Create(claim, pod)
			s.reserveByHand(claim.Name, pod.Name)
			s.start(r, "", 0)
			s.ungate(pod.Name)
			s.Running(pod.Name)
			after := s.LiveClaim(claim.Name).Annotations
			require.NotContains(t, after, fenceBefore)
			require.NotEmpty(t, after[fence])
			require.Equal(t, "stays", after["example.com/theirs"])
		})
	}
}

// reserveByHand allocates a claim and reserves it for a pod, as a scheduler does that dies before the binding.
func (s *space) reserveByHand(claim, pod string) {
	s.T.Helper()
	s.Protect(claim)
	consumer := s.LivePod(pod)
	s.UpdateClaimStatus(claim, func(claim *resourceapi.ResourceClaim) {
		claim.Status.Allocation = &resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
				{Request: s.RequestName(), Driver: s.Driver, Pool: s.Node(0), Device: "gpu-0"},
			}},
			NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{s.Node(0)}},
			}}}},
		}
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: consumer.Name, UID: consumer.UID}}
	})
}

// ungate takes the scheduling gates from a pod.
func (s *space) ungate(name string) {
	s.T.Helper()
	harness.Update(s.T, cluster.Client.CoreV1().Pods(s.Name), name, func(pod *corev1.Pod) { pod.Spec.SchedulingGates = nil })
}
