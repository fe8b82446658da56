package task

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/capacity"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// Settings are the settings of a solver. Their fields equal those of allocator.Solver, which documents them:
// each type converts to the other.
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

// ShareID returns a new ID for a share.
func (s *Settings) ShareID() types.UID {
	if s.NewShareID != nil {
		return s.NewShareID()
	}
	return uuid.NewUUID()
}

// Capacities returns the rules for calculating amounts of capacities.
func (s *Settings) Capacities() capacity.Rules {
	return capacity.Rules{Fractions: s.Features.FractionalCapacityRange}
}
