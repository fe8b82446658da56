package task

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// prepareResolved is prepare for claims that have to be resolved. One that cannot be has
// no requests and an error. The versions in which claims are resolved do not limit how many
// devices a claim can have; each request is for one.
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
