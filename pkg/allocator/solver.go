package allocator

import (
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/search"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
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

// DefaultStepBudget is the default limit of a search, in steps. A step is an attempt to use a device; a check
// whether there can be a solution at all counts as ten. The budget limits the time that one odd claim can
// cost on one node to tens of milliseconds.
const DefaultStepBudget = search.Default

// A Solver finds devices, with the settings that are its fields. It is safe for concurrent use.
type Solver task.Settings

// InventoryOptions returns the options for a store of slices whose views of pools suit a set of features.
func InventoryOptions(features structured.Features) inventory.Options {
	return inventory.Options{
		PartitionableDevices: features.PartitionableDevices,
		CompatibilityGroups:  features.CompatibilityGroups,
	}
}
