package kueue

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// testRefused: Kueue cannot count some claims. It says so in the workload, and never starts the job.
func testRefused(t *testing.T) {
	for name, claim := range map[string]struct {
		request func(*space) *builder.RequestBuilder
		edit    func(*resourceapi.ResourceClaim)
		part    string
	}{
		"a class without mapping": {
			func(s *space) *builder.RequestBuilder { return s.Want(1) }, nil, "is not mapped in DRA configuration",
		},
		"a selector": {
			func(s *space) *builder.RequestBuilder { return want(1).Where(s.Attribute("index") + " == 0") }, nil, "CEL selectors are not supported",
		},
		"all devices": {
			func(*space) *builder.RequestBuilder { return want(1).All() }, nil, "AllocationMode 'All' is not supported",
		},
		"alternatives": {
			func(*space) *builder.RequestBuilder { return builder.FirstAvailable("gpu", want(1)) }, nil, "FirstAvailable device selection is not supported",
		},
		"a constraint": {
			func(*space) *builder.RequestBuilder { return want(1) }, func(claim *resourceapi.ResourceClaim) {
				claim.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: new(resourceapi.FullyQualifiedName("example.com/index"))}}
			}, "device constraints (MatchAttribute) are not supported",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSpace(t, "refused", queueOptions{quota: 1}, 1)
			made := builder.Claim("other", claim.request(s))
			if claim.edit != nil {
				made.Modify(claim.edit)
			}
			s.Create(made.Template())
			s.job("job", 1, usingTemplate("other"))
			s.says("job", "QuotaReserved", "False", "Inadmissible", claim.part)
			s.suspended("job")
		})
	}
}

// testSharedClaim: Kueue counts no claims that exist already, which pods share.
func testSharedClaim(t *testing.T) {
	s := newSpace(t, "shared-claim", queueOptions{quota: 1}, 1)
	s.Create(builder.Claim("shared", want(1)).Obj())
	s.job("job", 1, using(corev1.PodResourceClaim{Name: "shared", ResourceClaimName: new("shared")}))
	s.says("job", "QuotaReserved", "False", "Inadmissible", "does not support use of resource claims")
	s.suspended("job")
}
