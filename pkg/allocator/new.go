package allocator

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/allocated"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/search"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// New returns an allocator that can be used wherever structured.NewAllocator of
// k8s.io/dynamic-resource-allocation is used, and gives the same results. It fails
// if features asks for one that is not in Supported.
//
// New costs next to nothing: it is made for those who ask about a few nodes of a snapshot
// and then take the next one. Slices and state are only looked at when a node is asked
// about, and must not be changed as long as the allocator is used. What was found out
// about a slice is kept as long as the slice is (answers of expressions: within recall.Shared's
// bound of memory), and used again if the same object is given
// again with the same celCache and features. In between, the caller may set fields of
// the slice, of its devices and counter sets; what these refer to (attributes, capacities,
// taints, node selectors) must not be written into, only replaced.
//
// Allocate additionally returns an error that wraps ErrGaveUp, and thereby
// structured.ErrFailedAllocationOnNode, if the step budget ran out: on that node
// there may be a solution which was not found.
func New(ctx context.Context, features structured.Features, state structured.AllocatedState,
	classes structured.DeviceClassLister, slices []*resourceapi.ResourceSlice, celCache *cel.Cache,
) (structured.Allocator, error) {
	return newDropIn(features, state, classes, slices, celCache, nil)
}

// NewPacked is New with the plan that the scheduler takes by default, of all solutions that it
// compares: devices that are close to each other, and of these the ones that leave most for others,
// if nothing is known of who they are. There is a plan if and only if New has one.
func NewPacked(ctx context.Context, features structured.Features, state structured.AllocatedState,
	classes structured.DeviceClassLister, slices []*resourceapi.ResourceSlice, celCache *cel.Cache,
) (structured.Allocator, error) {
	return newDropIn(features, state, classes, slices, celCache, packed)
}

// packed is shared by all allocators that NewPacked makes.
var packed = new(Objective)

func newDropIn(features structured.Features, state structured.AllocatedState, classes structured.DeviceClassLister,
	slices []*resourceapi.ResourceSlice, celCache *cel.Cache, objective *Objective,
) (structured.Allocator, error) {
	if missing := features.Set().Difference(Supported.Set()); missing.Len() > 0 {
		return nil, fmt.Errorf("features %v are not supported by this allocator; turn them off", missing.UnsortedList())
	}
	before, evaluator := knownTo(celCache, features), selector.NewEvaluator(celCache)
	evaluator.RememberLooks(before.looks)
	evaluator.RememberPrograms(&before.programs)
	return &dropIn{
		objective: objective,
		solver:    Solver{Features: features, Classes: classes, Evaluator: evaluator, Gradual: true, AsUpstream: true},
		snapshot:  before.slices.NewSnapshot(slices),
		usage:     allocated.NewUsage(state),
	}, nil
}

// ErrGaveUp says that a search ran out of its step budget. It affects one node.
var ErrGaveUp = fmt.Errorf("search gave up without an answer%w", structured.ErrFailedAllocationOnNode)

type dropIn struct {
	solver    Solver
	objective *Objective
	snapshot  *inventory.Snapshot
	usage     *allocated.Usage
}

// Allocate implements structured.Allocator.
func (d *dropIn) Allocate(ctx context.Context, node *v1.Node, claims []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	view := search.NodeView{Node: node, Pools: d.snapshot.OnNode(node), Usage: d.usage, Objective: d.objective}
	outcome, err := d.solver.Prepare(claims).Solve(ctx, view)
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
