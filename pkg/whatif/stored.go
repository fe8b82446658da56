package whatif

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Objects from a server have a UID, which identifies consumers and holders of devices. Objects from
// files have none.

// stored returns a pod as a server would store it.
func stored(pod *v1.Pod) *v1.Pod {
	if pod = defaultedPod(pod); pod.UID == "" {
		pod = pod.DeepCopy()
		pod.UID = types.UID("planned/" + Key(pod))
	}
	return pod
}

// storedClaims gives claims without a UID one.
func storedClaims(all []*resourceapi.ResourceClaim) []*resourceapi.ResourceClaim {
	result := make([]*resourceapi.ResourceClaim, len(all))
	for i, claim := range all {
		if claim.UID == "" {
			claim = claim.DeepCopy()
			claim.UID = types.UID("unnamed/" + Key(claim))
		}
		result[i] = claim
	}
	return result
}
