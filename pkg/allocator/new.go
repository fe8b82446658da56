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

// New returns an allocator that can replace structured.NewAllocator of k8s.io/dynamic-resource-allocation,
// and gives the same results. It fails if features contains a feature that is not in Supported.
//
// New is cheap, for callers that ask about a few nodes of a snapshot and then take the next snapshot. It
// reads slices and state only when a node is asked about; they must not change while the allocator is in use.
// Findings about a slice are kept as long as the slice (verdicts of expressions: within the bound of
// memo.Shared), and reused if the same object is passed again with the same celCache and features. In
// between, the caller may set fields of the slice, of its devices and counter sets. It must not write into
// the objects that these refer to (attributes, capacities, taints, node selectors), only replace them.
//
// Allocate additionally returns an error that wraps ErrGaveUp, and thereby structured.ErrFailedAllocationOnNode,
// if the step budget ran out: there may be a solution on that node that was not found.
func New(ctx context.Context, features structured.Features, state structured.AllocatedState,
	classes structured.DeviceClassLister, slices []*resourceapi.ResourceSlice, celCache *cel.Cache,
) (structured.Allocator, error) {
	return newDropIn(features, state, classes, slices, celCache, nil)
}

// NewPacked is New with the scheduler's default objective: of all solutions that it compares it takes the one
// whose devices are close to each other, and then the one that leaves most for other pods, without knowledge
// of these. It finds a plan if and only if New finds one.
func NewPacked(ctx context.Context, features structured.Features, state structured.AllocatedState,
	classes structured.DeviceClassLister, slices []*resourceapi.ResourceSlice, celCache *cel.Cache,
) (structured.Allocator, error) {
	return newDropIn(features, state, classes, slices, celCache, packed)
}

// packed is shared by all allocators of NewPacked.
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

// ErrGaveUp reports that a search ran out of its step budget. It affects one node.
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
