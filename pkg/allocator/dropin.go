package allocator

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// New returns an allocator that can be used wherever structured.NewAllocator of
// k8s.io/dynamic-resource-allocation is used, and gives the same results. It fails
// if features asks for one that is not in Supported.
//
// Allocate additionally returns an error that wraps ErrGaveUp, and thereby
// structured.ErrFailedAllocationOnNode, if the step budget ran out: on that node
// there may be a solution which was not found.
func New(ctx context.Context, features structured.Features, state structured.AllocatedState,
	classes structured.DeviceClassLister, slices []*resourceapi.ResourceSlice, celCache *cel.Cache,
) (structured.Allocator, error) {
	if missing := features.Set().Difference(Supported.Set()); missing.Len() > 0 {
		return nil, fmt.Errorf("features %v are not supported by this allocator; turn them off", missing.UnsortedList())
	}
	return &dropIn{
		solver: Solver{Features: features, Classes: classes, Evaluator: selector.NewEvaluator(celCache)},
		store:  inventory.FromSlices(slices, InventoryOptions(features)),
		usage:  usageFrom(state),
	}, nil
}

// ErrGaveUp says that a search ran out of its step budget. It affects one node.
var ErrGaveUp = fmt.Errorf("search gave up without an answer%w", structured.ErrFailedAllocationOnNode)

type dropIn struct {
	solver Solver
	store  *inventory.Store
	usage  ledger.View
}

// Allocate implements structured.Allocator.
func (d *dropIn) Allocate(ctx context.Context, node *v1.Node, claims []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	site := Site{Node: node, Pools: d.store.OnNode(node), Usage: d.usage}
	outcome, err := d.solver.Prepare(claims).Solve(ctx, site)
	if err != nil {
		return nil, err
	}
	outcome.Release()
	switch {
	case outcome.GaveUp:
		return nil, fmt.Errorf("%w after %d steps", ErrGaveUp, outcome.Steps)
	case outcome.InvalidPools:
		return nil, fmt.Errorf("invalid resource pools were encountered, and other pools do not suffice%w", structured.ErrFailedAllocationOnNode)
	}
	return outcome.Results, nil
}

// IsNodeError reports whether an error of Allocate affects one node only.
func IsNodeError(err error) bool {
	return errors.Is(err, structured.ErrFailedAllocationOnNode)
}

// usageFrom translates the allocated state. It names no holders, so neither does
// the result.
func usageFrom(state structured.AllocatedState) ledger.View {
	pools := make(map[inventory.PoolID]map[string]ledger.DeviceUsage)
	use := func(id structured.DeviceID, change func(*ledger.DeviceUsage)) {
		pool := inventory.PoolID{Driver: id.Driver.String(), Name: id.Pool.String()}
		if pools[pool] == nil {
			pools[pool] = make(map[string]ledger.DeviceUsage)
		}
		usage := pools[pool][id.Device.String()]
		change(&usage)
		pools[pool][id.Device.String()] = usage
	}
	for id := range state.AllocatedDevices {
		use(id, func(u *ledger.DeviceUsage) { u.Holders = append(u.Holders, ledger.ClaimRef{}) })
	}
	for id := range state.AllocatedSharedDeviceIDs {
		use(id.GetDeviceID(), func(u *ledger.DeviceUsage) { u.Shares = append(u.Shares, ledger.Share{}) })
	}
	for id, consumed := range state.AggregatedCapacity {
		amounts := make(amounts, len(consumed))
		for name, quantity := range consumed {
			amounts[name] = *quantity
		}
		use(id, func(u *ledger.DeviceUsage) { u.Shares = append(u.Shares, ledger.Share{Consumed: amounts}) })
	}
	view := make(ledger.Fixed, len(pools))
	for id, devices := range pools {
		view[id] = ledger.NewPoolUsage(devices)
	}
	return view
}
