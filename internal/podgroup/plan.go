package podgroup

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// maxTogether bounds how many claims are planned together.
const maxTogether = 32

// PlanTogether looks for devices on one node for several pods at once, as if none of their
// claims held anything: those before the last one were given what they would like best, which
// may be a whole device where halves would do for all of them
// (kubernetes/kubernetes#138765). claims has those without allocation of each pod, and the answer
// what these get, in the same order. It is nil if there are no devices for all of them, or if
// that cannot be told.
func PlanTogether(ctx context.Context, solver *allocator.Solver, view allocator.Site, claims [][]*resourceapi.ResourceClaim) [][]resourceapi.AllocationResult {
	var all []*resourceapi.ResourceClaim
	var held []types.UID
	for _, ofPod := range claims {
		for _, claim := range ofPod {
			all, held = append(all, claim), append(held, claim.UID)
		}
	}
	if len(all) > maxTogether {
		return nil
	}
	view.Usage = ledger.Without(view.Usage, held...)
	outcome, err := solver.Prepare(all).Solve(ctx, view)
	if err != nil || !outcome.Fits() {
		return nil
	}
	results := outcome.Results
	plans := make([][]resourceapi.AllocationResult, len(claims))
	for i, ofPod := range claims {
		n := len(ofPod)
		plans[i] = results[:n:n]
		results = results[n:]
	}
	return plans
}
