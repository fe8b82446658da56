package harness

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
)

// groupClaimAt is claimAt, reserved for groups.
func groupClaimAt(at revision, groups ...string) *resourceapi.ResourceClaim {
	claim := claimAt(at, groups...)
	for i := range claim.Status.ReservedFor {
		consumer := &claim.Status.ReservedFor[i]
		consumer.APIGroup, consumer.Resource, consumer.UID = schedulingapi.GroupName, "podgroups", types.UID("uid-of-"+consumer.Name)
	}
	return claim
}

// memberAt is podAt for a pod of a group.
func memberAt(at revision, name, group string) *corev1.Pod {
	pod := podAt(at, name)
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	return pod
}

func TestHistoryOfGroups(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		happen func(*history)
		want   string
	}{
		"reserved for the group": {
			happen: func(h *history) {
				h.sawClaim(claimAt(5), groupClaimAt(10, "gang"))
				h.sawPod(memberAt(20, "a", "gang"), false)
			},
		},
		"reserved for another group": {
			happen: func(h *history) {
				h.sawClaim(claimAt(5), groupClaimAt(10, "other"))
				h.sawPod(memberAt(20, "a", "gang"), false)
			},
			want: "(0: never)",
		},
		"reserved for the group too late": {
			happen: func(h *history) {
				h.sawClaim(claimAt(5), groupClaimAt(30, "gang"))
				h.sawPod(memberAt(20, "a", "gang"), false)
			},
			want: "bound at revision 20",
		},
		"taken away from the group": {
			happen: func(h *history) {
				h.sawClaim(claimAt(5), groupClaimAt(10, "gang"))
				h.sawPod(memberAt(20, "a", "gang"), false)
				h.sawClaim(groupClaimAt(10, "gang"), claimAt(30))
			},
			want: "podgroups gang used it since revision 20",
		},
		"not reserved for the group any more": {
			happen: func(h *history) {
				h.sawClaim(claimAt(5), groupClaimAt(10, "gang", "other"))
				h.sawPod(memberAt(20, "a", "gang"), false)
				h.sawClaim(groupClaimAt(10, "gang", "other"), groupClaimAt(30, "other"))
			},
			want: "no longer reserved",
		},
		"released before any pod was bound": {
			happen: func(h *history) {
				h.sawClaim(claimAt(5), groupClaimAt(10, "gang"))
				h.sawClaim(groupClaimAt(10, "gang"), claimAt(15))
				h.sawClaim(claimAt(15), groupClaimAt(18, "gang"))
				h.sawPod(memberAt(20, "a", "gang"), false)
			},
		},
		"released when all pods were gone": {
			happen: func(h *history) {
				h.sawClaim(claimAt(5), groupClaimAt(10, "gang"))
				h.sawPod(memberAt(20, "a", "gang"), false)
				h.sawPod(memberAt(25, "a", "gang"), true)
				h.sawClaim(groupClaimAt(10, "gang"), claimAt(30))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHistory()
			tc.happen(h)
			err := h.check("ns")
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}
