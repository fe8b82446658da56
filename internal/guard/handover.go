package guard

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Listed is the relevant state of a claim that was listed after this process got the Lease.
type Listed struct {
	ledger.ClaimRef
	Version   string
	Allocated bool
}

// Handover tracks the steps before a process that got the Lease may decide.
//
// Allocations that a predecessor approved, or that passed without a guard, are based on a version that their claim
// had before. So the new holder lists the claims, and fences those without an allocation. When the ledger knows each
// of these at the version of its fence, and the others at the listed version, it knows all existing and possible
// allocations, except for those that this process approves from then on. No other process could have approved
// allocations of claims that are created later.
type Handover struct {
	// toFence lists the claims to fence, and awaited the versions that the ledger must know.
	toFence map[types.UID]Listed
	awaited map[types.UID]string
}

// NewHandover begins a handover with all existing claims.
func NewHandover(claims []Listed) *Handover {
	t := &Handover{toFence: make(map[types.UID]Listed), awaited: make(map[types.UID]string)}
	for _, claim := range claims {
		if claim.Allocated {
			t.awaited[claim.UID] = claim.Version
		} else {
			t.toFence[claim.UID] = claim
		}
	}
	return t
}

// ToFence returns the claims that must be fenced, see Fencer.
func (t *Handover) ToFence() []Listed {
	claims := make([]Listed, 0, len(t.toFence))
	for _, claim := range t.toFence {
		claims = append(claims, claim)
	}
	slices.SortFunc(claims, func(x, y Listed) int { return cmp.Compare(x.UID, y.UID) })
	return claims
}

// Fenced records that the server has a claim at the given version, which is newer than the listed one; "" means that
// the claim is gone.
func (t *Handover) Fenced(claim types.UID, version string) {
	delete(t.toFence, claim)
	if version != "" {
		t.awaited[claim] = version
	}
}

// Gone records that the server no longer has a claim.
func (t *Handover) Gone(claim types.UID) { delete(t.awaited, claim) }

// Missing returns the claims whose awaited version the ledger does not know. If all claims were fenced and none are
// missing, the process may decide.
func (t *Handover) Missing(of *ledger.Ledger) []types.UID {
	var missing []types.UID
	for claim, version := range t.awaited {
		if informer.AtLeast(of.State(claim).Version, version) {
			delete(t.awaited, claim)
		} else {
			missing = append(missing, claim)
		}
	}
	return missing
}
