package compat

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// consumerLimit is how many consumers the release admits to a claim (status.reservedFor).
func (r release) consumerLimit() int {
	switch r.claims {
	case api.V1alpha2, api.V1alpha3:
		return 32
	default:
		return 256
	}
}

// Each version has its own limit of consumers. The pod for which there is no place hears
// of it, and comes when there is one.
func TestConsumersOfEachVersion(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "consumers", 1)
	limit := tested.consumerLimit()
	s.Devices(0, harness.Numbered(1)...)
	s.Create(builder.Claim("shared", s.Want(1)).Obj(), s.Pod("first", builder.Uses("shared")))
	s.Running("first")
	// Pods would have to exist. Nobody looks after others.
	s.UpdateClaimStatus("shared", func(claim *resourceapi.ResourceClaim) {
		for i := len(claim.Status.ReservedFor); i < limit; i++ {
			name := fmt.Sprintf("job-%03d", i)
			claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{
				APIGroup: "example.com", Resource: "jobs", Name: name, UID: types.UID(name),
			})
		}
	})
	s.Create(s.Pod("late", builder.Uses("shared")))
	s.Waiting("late", fmt.Sprintf("claim %s/shared is reserved for %d pods (the limit)", s.Name, limit))
	s.UpdateClaimStatus("shared", func(claim *resourceapi.ResourceClaim) {
		claim.Status.ReservedFor = claim.Status.ReservedFor[:limit-1]
	})
	s.RunningSoon("first", "late")
	require.Len(t, s.LiveClaim("shared").Status.ReservedFor, limit)
	// For the check of everything at the end, consumers have to be pods.
	s.UpdateClaimStatus("shared", func(claim *resourceapi.ResourceClaim) {
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{claim.Status.ReservedFor[0], claim.Status.ReservedFor[limit-1]}
	})
	s.Running("first", "late")
}
