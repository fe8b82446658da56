package allocator_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// madeFor makes a claim look as if it was created from a template for a pod, which refers to it by the name called.
func madeFor(pod, called string) func(*resourceapi.ResourceClaim) {
	return func(claim *resourceapi.ResourceClaim) {
		claim.Annotations = map[string]string{resourceapi.PodResourceClaimAnnotation: called}
		claim.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: pod, Controller: ptr.To(true)}}
	}
}

// TestReplicasHaveOneReason: reasons, and errors about devices, refer to a claim from a template by the pod's
// name for it, so that all replicas have the same reason.
func TestReplicasHaveOneReason(t *testing.T) {
	tests := map[string]struct {
		wanted []*b.RequestBuilder // a claim for each
		want   string
	}{
		"a request":  {[]*b.RequestBuilder{b.Request("r", "gpu").Count(9)}, "claim claim-0 of the pod request r: 8 devices match: 9 asked"},
		"two claims": {[]*b.RequestBuilder{b.Request("r", "gpu").Count(8), b.Request("r", "gpu")}, "claims claim-0 of the pod and claim-1 of the pod want 9 devices of class gpu together; 8 match"},
		"a selector": {[]*b.RequestBuilder{b.Request("r", "gpu").Where(attr + ".numa == 1")}, "claim claim-0 of the pod request r selector 0 on device gpu.example.com/p/gpu-0 of slice p: CEL runtime error: no such key: numa. consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields"},
		"a class":    {[]*b.RequestBuilder{b.Request("r", "missing")}, "claim claim-0 of the pod request r: device class missing does not exist"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			reasons := map[string]bool{}
			for _, replica := range []string{"web-7f9-x2b", "web-7f9-k8p"} {
				var claims []*b.ClaimBuilder
				for i, request := range tc.wanted {
					called := names("claim", len(tc.wanted))[i]
					claims = append(claims, b.Claim(replica+"-"+called+"-8x7w", request).Modify(madeFor(replica, called)))
				}
				outcome, err := nodeWith(0, gpus(8)...).solve(t.Context(), claims...)
				reason := ""
				if err != nil {
					reason = err.Error()
				} else {
					reason = outcome.Reason()
					require.Equal(t, "default/"+replica+"-claim-0-8x7w", outcome.Explain().Claims[0].Claim, "an explanation has the names")
				}
				require.Contains(t, reason, tc.want)
				reasons[reason] = true
			}
			require.Len(t, reasons, 1)
		})
	}
}
