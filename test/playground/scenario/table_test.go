package scenario

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

func TestWriteTable(t *testing.T) {
	t.Parallel()
	recorder := NewRecorder()
	named := boundPod("app", "named", "c")
	recorder.podSeen(named)
	claim := allocatedClaim("c", []string{"gpu-0", "gpu-1"}, "named")
	extra := resourceapi.DeviceRequestAllocationResult{Request: "extra", Driver: "d", Pool: "rack", Device: "x", AdminAccess: ptr.To(true)}
	claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, extra)
	recorder.claimSeen(claim)
	// What was allocated stays in the table when the claim is released.
	recorder.claimSeen(change(claim.DeepCopy(), func(c *resourceapi.ResourceClaim) {
		c.Status = resourceapi.ResourceClaimStatus{}
	}))

	generated := boundPod("app", "generated")
	generated.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("template")}}
	recorder.podSeen(generated)
	recorder.claimSeen(change(allocatedClaim("generated-gpu-x7k2", []string{"gpu-5"}, "generated"), func(c *resourceapi.ResourceClaim) {
		c.Annotations = map[string]string{resourceapi.PodResourceClaimAnnotation: "gpu"}
	}))
	recorder.podSeen(boundPod("app", "plain"))
	recorder.podSeen(waitingPod("app", "new", ""))
	recorder.podSeen(waitingPod("app", "gated", ""))
	recorder.eventSeen(eventAbout("gated", "claim not created"))
	recorder.podSeen(waitingPod("app", "waits", "old reason"))
	recorder.podSeen(waitingPod("app", "waits", "0/1 nodes are available. preemption: not helpful"))
	recorder.podSeen(change(boundPod("app", "elsewhere"), func(p *corev1.Pod) { p.Namespace = "other" }))

	var out strings.Builder
	require.NoError(t, WriteTable(&out, []Scenario{{Name: "ns", Shows: "What it shows."}, {Name: "empty", Shows: "Nothing."}}, recorder))
	require.Equal(t, `
ns: What it shows.
  POD        NODE  CLAIM/REQUEST -> DEVICES, OR THE REASON
  gated      -     Warned: claim not created
  generated  n     template/gpu -> gpu-5
  named      n     c/gpu -> gpu-0 gpu-1
                   c/extra -> rack/x (admin)
  new        -     (the scheduler has not said why)
  plain      n     (no claims)
  waits      -     Unschedulable: 0/1 nodes are available.

empty: Nothing.
  POD        NODE  CLAIM/REQUEST -> DEVICES, OR THE REASON
`, out.String())
}

func TestWrap(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"empty":     {"", nil},
		"fits":      {"one two", []string{"one two"}},
		"breaks":    {"one two three", []string{"one two", "three"}},
		"long word": {"a loooooooong b", []string{"a", "loooooooong", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, wrap(tc.text, 7))
		})
	}
}
