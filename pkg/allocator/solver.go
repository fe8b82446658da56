package allocator

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/budget"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// Supported are the features that this allocator implements.
var Supported = structured.Features{
	AdminAccess:             true,
	CompatibilityGroups:     true,
	ConsumableCapacity:      true,
	DerivedAttributes:       true,
	DeviceBindingAndStatus:  true,
	DeviceTaints:            true,
	FractionalCapacityRange: true,
	ListTypeAttributes:      true,
	OptionalNodeOperations:  true,
	PartitionableDevices:    true,
	PrioritizedList:         true,
}

// DefaultStepBudget is how many steps a search may take before it gives up. A step is a
// device that is tried; asking whether there can be a solution at all counts as ten. It
// bounds the time that one odd claim can cost on one node to tens of milliseconds.
const DefaultStepBudget = budget.Default

// Solver finds devices. It is safe for concurrent use.
type Solver struct {
	Features  structured.Features
	Classes   structured.DeviceClassLister
	Evaluator *selector.Evaluator
	// StepBudget bounds a single search; 0 means DefaultStepBudget.
	StepBudget int
	// KeepShared keeps devices of which claims have shares from being allocated whole, as
	// long as they have them: an exclusive device has one holder. It only matters once a
	// driver has stopped to offer such a device for sharing. Upstream then gives it out if
	// what the shares have recorded as consumed leaves enough of each capacity, which it
	// always does for a device without capacities.
	KeepShared bool
	// Gradual lets selectors be evaluated for a device when the search comes to it, and only
	// then: for those who ask once and are content with the first devices. It takes no notice
	// of a selector.Budget.
	Gradual bool
	// RefuseOfNode leaves out the devices that stand for, or need, resources of the node such
	// as CPU (KEP-5517): what they take there has to be accounted for, which the search does
	// not do. Upstream's does not either, its plugin does.
	RefuseOfNode bool
	// AsUpstream keeps upstream's answers where they depend on the order in which devices and requests are
	// tried: a search ends with the first error that it meets, though another device or alternative
	// could be had, and admin access is charged for counters, capacity and shares.
	AsUpstream bool
	// Resolve returns a claim with its requests if these are not in the claim itself, as in
	// v1alpha2; the claim is left as it is. Its errors become errors of the task. nil means
	// that claims say all.
	Resolve func(*resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error)
	// NewShareID makes the IDs of shares, the one thing in a plan that is not
	// determined by the input. nil means random UUIDs, as the API asks for.
	NewShareID func() types.UID
}

// InventoryOptions are the options that a store of slices must be made with so
// that the views of its pools are right for a set of features.
func InventoryOptions(features structured.Features) inventory.Options {
	return inventory.Options{
		PartitionableDevices: features.PartitionableDevices,
		CompatibilityGroups:  features.CompatibilityGroups,
	}
}
