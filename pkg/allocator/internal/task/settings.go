package task

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/capacity"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// Settings are those of a solver. They are the fields of allocator.Solver, which says what each
// of them does: one is converted to the other.
type Settings struct {
	Features     structured.Features
	Classes      structured.DeviceClassLister
	Evaluator    *selector.Evaluator
	StepBudget   int
	KeepShared   bool
	Gradual      bool
	RefuseOfNode bool
	AsUpstream   bool
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
