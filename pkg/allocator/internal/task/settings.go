package task

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/capacity"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// Settings are the settings of an allocator.Solver, which has the same fields.
type Settings struct {
	Features  structured.Features
	Classes   structured.DeviceClassLister
	Evaluator *selector.Evaluator
	// StepBudget limits a single search; 0 means allocator.DefaultStepBudget.
	StepBudget int
	// KeepShared prevents the exclusive allocation of devices as long as claims have shares of them, because
	// an exclusive device must have one holder. It matters only after a driver stopped offering such a device
	// for sharing. Upstream then allocates the device if the recorded consumption of the shares leaves enough
	// of each capacity, which is always true for a device without capacities.
	KeepShared bool
	// Gradual evaluates selectors for a device only when the search reaches it, for callers that ask once and
	// are content with the first devices. It ignores any selector.Budget.
	Gradual bool
	// RefuseOfNode leaves out devices that stand for, or need, resources of the node like CPU (KEP-5517).
	// Their consumption of these resources must be accounted for, which the search does not do. In upstream,
	// the plugin does it, not the allocator.
	RefuseOfNode bool
	// AsUpstream keeps upstream's answers where they depend on the order in which devices and requests are
	// tried. A search then ends with its first error, even if another device or alternative is available, and
	// admin access is charged for counters, capacity and shares.
	AsUpstream bool
	// Resolve returns a claim with its requests if these are not in the claim itself, as in v1alpha2. It must not
	// change the given claim. Its errors become errors of the task. nil means that claims contain their requests.
	Resolve func(*resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error)
	// NewShareID returns the IDs of shares, the only part of a plan that the input does not determine. nil
	// means random UUIDs, as the API demands.
	NewShareID func() types.UID
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
