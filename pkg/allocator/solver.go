package allocator

import (
	"context"

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

// Steps is a budget for searches that belong together, for example those of one attempt to schedule a pod. It
// is safe for concurrent use.
//
// One half is divided in advance: each search has its share, regardless of the others and of their order, so
// that a solution that takes few steps is found on every node. The other half is for searches that need more.
// They take it in chunks, and early searches leave something for later ones.
type Steps = search.Steps

// NewSteps returns a budget for a number of searches. Together they take about total steps at most; they take
// more only if their shares would be too small to be useful.
func NewSteps(total, searches int) *Steps { return search.NewSteps(total, searches) }

// WithSteps returns a context that limits searches to the budget. Each of them stays within Solver.StepBudget
// as well. nil means that there is no common budget.
func WithSteps(ctx context.Context, steps *Steps) context.Context {
	return search.WithSteps(ctx, steps)
}
