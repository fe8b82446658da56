package task

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/capacity"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// Settings are those of a solver. They are the fields of allocator.Solver, which says what each
// of them does: one is converted to the other.
type Settings struct {
	Features     structured.Features
	Classes      structured.DeviceClassLister
	Evaluator    *selector.Evaluator
	StepBudget   int
	Policy       Policy
	KeepShared   bool
	Gradual      bool
	RefuseOfNode bool
	Resolve      func(*resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error)
	NewShareID   func() types.UID
}

// ShareID makes the ID of a share.
func (s *Settings) ShareID() types.UID {
	if s.NewShareID != nil {
		return s.NewShareID()
	}
	return uuid.NewUUID()
}

// Capacities are the rules by which amounts of capacities are calculated.
func (s *Settings) Capacities() capacity.Rules {
	return capacity.Rules{Fractions: s.Features.FractionalCapacityRange}
}

// Policy decides which of several solutions a search meets first. Without a policy
// devices are tried in upstream's order. It does not decide whether there is a
// solution, with one exception that is upstream's: of devices with an attribute value
// of unknown type a constraint accepts only the one that is tried first.
type Policy interface {
	// Order returns the positions of a pool's candidates in the order in which they
	// are to be tried, best first, each candidate exactly once; nil means as the pool
	// lists them. It must depend on nothing but its arguments and change none. A
	// candidate for which the claim cannot be allocated at all (a selector fails on it)
	// is not among candidates; it is met after all others of its pool.
	Order(pool *inventory.NodePool, usage *ledger.PoolUsage, candidates bitset.Set) []int
}
