package harness

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// claimAt is a claim as of a revision. Without consumers, it is not allocated.
func claimAt(at revision, consumers ...string) *resourceapi.ResourceClaim {
	claim := builder.Claim("claim").In("ns").Obj()
	claim.ResourceVersion = strconv.FormatUint(uint64(at), 10)
	for _, consumer := range consumers {
		claim.Status.Allocation = &resourceapi.AllocationResult{}
		claim.Status.ReservedFor = append(claim.Status.ReservedFor,
			resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: consumer, UID: types.UID(consumer)})
	}
	return claim
}

// podAt is a pod that was bound at a revision and uses the claim.
func podAt(at revision, name string) *corev1.Pod {
	use := corev1.PodResourceClaim{Name: "claim", ResourceClaimName: new("claim")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: strconv.FormatUint(uint64(at), 10)},
		Spec:       corev1.PodSpec{NodeName: "node", ResourceClaims: []corev1.PodResourceClaim{use}},
	}
}

func TestHistoryWithGaps(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		happen func(*history)
		// gap is the end of the gap; 0 is none.
		gap  string
		want string
	}{
		"reserved too late": {
			happen: func(h *history) {
				h.sawClaim(claimAt(10), claimAt(30, "a"))
				h.sawPod(podAt(20, "a"), false)
			},
			want: "bound at revision 20",
		},
		"perhaps reserved in time": {
			happen: func(h *history) {
				h.sawClaim(claimAt(10), claimAt(30, "a", "b"))
				h.sawPod(podAt(20, "a"), false)
			},
			gap: "40",
		},
		"reserved too late, after the gap": {
			happen: func(h *history) {
				h.sawClaim(claimAt(10), claimAt(30, "a"))
				h.sawPod(podAt(20, "a"), false)
			},
			gap:  "5",
			want: "bound at revision 20",
		},
		"certainly reserved too late": {
			happen: func(h *history) {
				h.sawClaim(claimAt(25), claimAt(30, "a"))
				h.sawPod(podAt(20, "a"), false)
			},
			gap:  "40",
			want: "bound at revision 20",
		},
		"never reserved": {
			happen: func(h *history) { h.sawPod(podAt(20, "a"), false) },
			gap:    "40",
			want:   "(0: never)",
		},
		"first seen in the gap": {
			happen: func(h *history) {
				h.sawClaim(nil, claimAt(30, "a"))
				h.sawPod(podAt(20, "a"), false)
			},
			gap: "40",
		},
		"taken away": {
			happen: func(h *history) {
				h.sawClaim(claimAt(5), claimAt(10, "a"))
				h.sawPod(podAt(20, "a"), false)
				h.sawClaim(claimAt(10, "a"), claimAt(30))
			},
			want: "at revision 30",
		},
		"perhaps taken away before the pod was bound again": {
			happen: func(h *history) {
				h.sawClaim(claimAt(5), claimAt(10, "a"))
				h.sawPod(podAt(20, "a"), false)
				h.sawClaim(claimAt(10, "a"), claimAt(30))
			},
			gap: "40",
		},
		"pod vanished before": {
			happen: func(h *history) {
				h.sawClaim(claimAt(5), claimAt(10, "a"))
				h.sawPod(podAt(20, "a"), false)
				h.sawPod(lastKnown(cache.DeletedFinalStateUnknown{Obj: podAt(20, "a")}), true)
				h.sawClaim(claimAt(10, "a"), claimAt(30))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &Cluster{history: newHistory()}
			if tc.gap != "" {
				c.WritesMayBeMissing(tc.gap)
			}
			tc.happen(c.history)
			err := c.history.check("ns")
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}
