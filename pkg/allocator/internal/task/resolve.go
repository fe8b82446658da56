package task

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// prepareResolved is prepare for claims that must be resolved first. A claim that cannot be resolved gets no
// requests and an error. The API versions that need this do not limit the devices of a claim; each request is
// for one device.
func prepareResolved(s *Settings, claims []*resourceapi.ResourceClaim) *Task {
	resolved := slices.Clone(claims)
	errs := make([]error, len(claims))
	for i, claim := range claims {
		known, err := s.Resolve(claim)
		if err != nil {
			unknown := *claim
			unknown.Spec = resourceapi.ResourceClaimSpec{}
			known, errs[i] = &unknown, err
		}
		resolved[i] = known
	}
	t := prepareAsIs(s, resolved)
	for i, c := range t.claims {
		c.Err = errs[i]
		if resolved[i] != claims[i] {
			c.Most = max(c.Most, len(c.Slots))
		}
	}
	return t
}
