package guard

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/objectversion"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Listed is what matters of a claim that was listed after this process had got the Lease.
type Listed struct {
	ledger.ClaimRef
	Version   string
	Allocated bool
}

// Takeover is what has to happen before a process that got the Lease may decide.
//
// What a predecessor has approved, and what was let pass while nobody could be asked, rests on a
// version that its claim had before. So the claims are listed, as they are now; those without an
// allocation are fenced; and when the ledger knows each of them at the version of its fence, and
// the others as they were listed, then it knows all allocations that there are or can be, but for
// those that this process approves from then on. Claims that are made later were not there to be
// approved by anybody else.
type Takeover struct {
	// toFence are the claims that are to be fenced, and awaited the versions that the ledger
	// has to know.
	toFence map[types.UID]Listed
	awaited map[types.UID]string
}

// NewTakeover begins with all claims there are.
func NewTakeover(claims []Listed) *Takeover {
	t := &Takeover{toFence: make(map[types.UID]Listed), awaited: make(map[types.UID]string)}
	for _, claim := range claims {
		if claim.Allocated {
			t.awaited[claim.UID] = claim.Version
		} else {
			t.toFence[claim.UID] = claim
		}
	}
	return t
}

// ToFence returns the claims that have to be fenced, see Fencer.
func (t *Takeover) ToFence() []Listed {
	claims := make([]Listed, 0, len(t.toFence))
	for _, claim := range t.toFence {
		claims = append(claims, claim)
	}
	slices.SortFunc(claims, func(x, y Listed) int { return cmp.Compare(x.UID, y.UID) })
	return claims
}

// Fenced notes that the server has a claim at the given version, which is newer than the listed
// one; or, with "", that the claim is gone.
func (t *Takeover) Fenced(claim types.UID, version string) {
	delete(t.toFence, claim)
	if version != "" {
		t.awaited[claim] = version
	}
}

// Gone notes that the server does not have a claim any more.
func (t *Takeover) Gone(claim types.UID) { delete(t.awaited, claim) }

// Missing returns the claims that the ledger does not know well enough. If all were fenced and
// there are none, the process may decide.
func (t *Takeover) Missing(of *ledger.Ledger) []types.UID {
	var missing []types.UID
	for claim, version := range t.awaited {
		if objectversion.AtLeast(of.State(claim).Version, version) {
			delete(t.awaited, claim)
		} else {
			missing = append(missing, claim)
		}
	}
	return missing
}
