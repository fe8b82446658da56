package planning

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// firstAlternatives returns classes of the same pods in which each request has only its first alternative. differs
// reports whether any request had more.
func firstAlternatives(classes []*class) (first []*class, differs bool) {
	for _, c := range classes {
		next := *c
		next.members = slices.Clone(c.members)
		for i := range next.members {
			member := &next.members[i]
			member.Open = slices.Clone(member.Open)
			for j, claim := range member.Open {
				if hasAlternatives(claim) {
					member.Open[j], differs = withoutAlternatives(claim), true
				}
			}
		}
		first = append(first, &next)
	}
	return first, differs
}

func hasAlternatives(claim *resourceapi.ResourceClaim) bool {
	return slices.ContainsFunc(claim.Spec.Devices.Requests, func(r resourceapi.DeviceRequest) bool { return len(r.FirstAvailable) > 1 })
}

// withoutAlternatives returns a copy of a claim with only the first alternative of each request.
func withoutAlternatives(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	first := claim.DeepCopy()
	for i := range first.Spec.Devices.Requests {
		if request := &first.Spec.Devices.Requests[i]; len(request.FirstAvailable) > 1 {
			request.FirstAvailable = request.FirstAvailable[:1]
		}
	}
	return first
}
