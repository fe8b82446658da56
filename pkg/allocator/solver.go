package allocator

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
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
const DefaultStepBudget = 100_000

// Solver finds devices. It is safe for concurrent use.
type Solver struct {
	Features  structured.Features
	Classes   structured.DeviceClassLister
	Evaluator *selector.Evaluator
	// StepBudget bounds a single search; 0 means DefaultStepBudget.
	StepBudget int
	// Policy decides which of several solutions is found; nil means the one that
	// upstream finds first.
	Policy Policy
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
	// Resolve returns a claim with its requests if these are not in the claim itself, as in
	// v1alpha2; the claim is left as it is. Its errors become errors of the task. nil means
	// that claims say all.
	Resolve func(*resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error)
	// NewShareID makes the IDs of shares, the one thing in a plan that is not
	// determined by the input. nil means random UUIDs, as the API asks for.
	NewShareID func() types.UID
}

func (s *Solver) shareID() types.UID {
	if s.NewShareID != nil {
		return s.NewShareID()
	}
	return uuid.NewUUID()
}

// InventoryOptions are the options that a store of slices must be made with so
// that the views of its pools are right for a set of features.
func InventoryOptions(features structured.Features) inventory.Options {
	return inventory.Options{
		PartitionableDevices: features.PartitionableDevices,
		CompatibilityGroups:  features.CompatibilityGroups,
	}
}

// Site is where devices are looked for.
type Site struct {
	Node *v1.Node
	// Pools are those that the node sees, in the order in which they are tried.
	Pools []*inventory.NodePool
	// Usage tells what of them is used.
	Usage ledger.View
}

// Outcome is the answer of a search that came to its end, one way or the other.
type Outcome struct {
	// Results has one entry for each claim, or is nil if there is no solution or
	// none was found within the budget. It is also nil after Check.
	Results []resourceapi.AllocationResult
	// Steps is how many devices were tried.
	Steps int
	// TurnedBack is true if the first choices, as far as they went, led nowhere.
	TurnedBack bool
	// GaveUp is true if the budget ran out: there may be a solution.
	GaveUp bool
	// CommonBudget is true if it gave up because of the budget that it has in common with
	// other searches, see WithSteps.
	CommonBudget bool
	// InvalidPools is true if there is no solution, but the site has pools which
	// could not be allocated from because they contradict themselves.
	InvalidPools bool

	found  bool
	search *search // for Reason, until Release
}

// Release gives the memory of a search that found nothing back, so that the next one
// can use it. There are no reasons after that. It is optional.
func (o *Outcome) Release() {
	if o.search != nil {
		o.search.release()
		o.search = nil
	}
}

// Fits reports whether a solution was found.
func (o *Outcome) Fits() bool { return o.found }

// ErrInterrupted marks the error of a search whose context ended.
var ErrInterrupted = errors.New("looking for devices was interrupted")

// Solve looks for devices for all claims of the task at once. Errors mean that
// the claims cannot be handled as they are, on any node: a class is missing, a
// selector cannot be evaluated, a feature is off. They are not "does not fit".
// If the context ends, the error wraps ErrInterrupted and the context's cause. If it has
// a selector.Budget that does not suffice, the error is a selector.Pending.
func (t *Task) Solve(ctx context.Context, site Site) (*Outcome, error) {
	return t.solve(ctx, site, (*search).results)
}

// Check is Solve for those who only want to know whether there is a solution. It
// takes half the time.
func (t *Task) Check(ctx context.Context, site Site) (*Outcome, error) {
	return t.solve(ctx, site, (*search).checkResults)
}

// resultsOf makes something of a solution.
type resultsOf func(*search) ([]resourceapi.AllocationResult, error)

func (t *Task) solve(ctx context.Context, site Site, results resultsOf) (*Outcome, error) {
	if outcome, err := t.straight(ctx, site, results); outcome != nil || err != nil {
		return outcome, err
	}
	search, err := newSearch(ctx, t, site, false)
	if err != nil {
		return nil, err
	}
	found := false
	if !search.hopeless() {
		found, err = search.claim(0)
	}
	outcome := &Outcome{Steps: search.steps, TurnedBack: search.turnedBack, found: found}
	switch {
	case errors.Is(err, errBudget):
		outcome.GaveUp, outcome.CommonBudget, outcome.search = true, search.allowance.isCommon(), search
		return outcome, nil
	case err == nil && !found:
		outcome.InvalidPools, outcome.search = hasInvalidPools(site.Pools), search
		return outcome, nil
	case err == nil:
		outcome.Results, err = results(search)
	}
	search.release()
	if err != nil {
		return nil, err
	}
	return outcome, nil
}

func hasInvalidPools(pools []*inventory.NodePool) bool {
	for _, pool := range pools {
		if pool.State == inventory.Invalid {
			return true
		}
	}
	return false
}

func interrupted(ctx context.Context) error {
	return fmt.Errorf("%w: %w", ErrInterrupted, context.Cause(ctx))
}
