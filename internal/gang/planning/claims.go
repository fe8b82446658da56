package planning

import (
	"encoding/json"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
)

// ClaimsKey returns a text that is equal for pods with equivalent claims in the same order. Two claims made for one pod
// each are equivalent if their specs are equal and neither has an allocation; other claims only if they are the same
// claim.
func ClaimsKey(pod *v1.Pod, claims []*resourceapi.ResourceClaim) string {
	var b strings.Builder
	for _, claim := range claims {
		b.WriteByte('\n')
		if claim.Status.Allocation == nil && metav1.IsControlledBy(claim, pod) {
			if spec, err := json.Marshal(&claim.Spec); err == nil {
				b.Write(spec)
				continue
			}
		}
		b.WriteString(string(claim.UID))
	}
	return b.String()
}

// DevicesOf returns the number of devices of some device classes that are allocated to claims.
func DevicesOf(claims []*resourceapi.ResourceClaim, classes []string) (devices int) {
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for i := range claim.Status.Allocation.Devices.Results {
			if slices.Contains(classes, dra.ClassOf(claim, claim.Status.Allocation.Devices.Results[i].Request)) {
				devices++
			}
		}
	}
	return devices
}
