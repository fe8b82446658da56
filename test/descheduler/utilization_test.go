package descheduler

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// testPacked: HighNodeUtilization has a pod leave a node that is used little. With strategy consolidate, what replaces it goes to the
// node that is in use, and a request for all devices of a node fits.
func testPacked(t *testing.T) {
	s := newSpaceWith(t, "packed", "consolidate", 2, 2)
	s.deploy(app, 1, withDevice, gated)
	s.ungate()
	small := s.runs(app, 1)
	claim := s.claimOf(small[0])
	s.open(1)
	busy := s.PodOnNode("busy", 1, builder.FromTemplate(template))
	requesting("cpu", "16")(busy)
	s.Create(busy)
	s.Running("busy")
	littleUsed := policy{plugin: "HighNodeUtilization", args: map[string]any{"thresholds": map[string]any{"cpu": 20}}, nodeFit: true}
	require.Empty(t, s.deschedule(littleUsed.protecting(withClaims)))
	require.Equal(t, small, s.deschedule(littleUsed))
	s.Gone(small[0])
	s.ClaimGone(claim)
	s.ungate() // Now that the first node is empty.
	s.on(1, s.runs(app, 1)...)
	s.ClaimAndPod("large", s.Want(2))
	s.Running("large")
	s.on(0, "large")
}

// gate keeps pods from being scheduled.
const gate = "example.com/gate"

func gated(pod *corev1.Pod) { pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: gate}} }

// ungate lets the only pod of the Deployment be scheduled.
func (s *space) ungate() {
	s.T.Helper()
	_, waiting := s.settles(app, 0, 1, "scheduling gates")
	harness.Update(s.T, cluster.Client.CoreV1().Pods(s.Name), waiting[0], func(pod *corev1.Pod) { pod.Spec.SchedulingGates = nil })
}

// testSpread: LowNodeUtilization has a pod leave a node that is used much. What replaces it goes to another node with strategy spread.
// With consolidate, it comes back to the node, to be evicted by the next run.
func testSpread(t *testing.T) {
	muchUsed := policy{plugin: "LowNodeUtilization", args: map[string]any{
		"thresholds": map[string]any{"cpu": 20}, "targetThresholds": map[string]any{"cpu": 40},
	}, nodeFit: true}
	for strategy, others := range map[string]int{"consolidate": 0, "spread": 1} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			s := newSpaceWith(t, "used", strategy, 5, 4)
			s.deploy(app, 4, withDevice, requesting("cpu", "4"))
			s.runs(app, 4)
			s.open(1)
			require.Empty(t, s.deschedule(muchUsed.protecting(withClaims)))
			require.Len(t, s.deschedule(muchUsed), 1)
			moved := 0
			for _, pod := range s.runs(app, 4) {
				if s.LivePod(pod).Spec.NodeName == s.Node(1) {
					moved++
				}
			}
			require.Equal(t, others, moved)
			require.Len(t, s.deschedule(muchUsed), 1-others)
		})
	}
}

// requesting has a pod request a quantity of a resource.
func requesting(resource, quantity string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Requests = builder.Resources(resource, quantity)
	}
}
