package allocator_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// cluster is the input of hand-written tests: devices, their holders, and one node. Empty fields have defaults.
type cluster struct {
	slices   []*b.SliceBuilder
	before   []*b.SliceBuilder // what was published when held got its devices; slices of the same names replace these
	held     []*resourceapi.ResourceClaim
	node     *v1.Node                   // default: node "n"
	classes  []*resourceapi.DeviceClass // in addition to "gpu", which selects everything
	features *structured.Features       // default: coreFeatures
	budget   int
}

// coreFeatures are sufficient for device names, attributes, counters and taints. The other features are off
// in these tests unless a test enables them.
var coreFeatures = structured.Features{
	AdminAccess: true, DeviceTaints: true, ListTypeAttributes: true, PartitionableDevices: true, PrioritizedList: true,
}

func (c cluster) solver() *allocator.Solver {
	features := coreFeatures
	if c.features != nil {
		features = *c.features
	}
	return &allocator.Solver{
		Features:   features,
		Classes:    classList(append(slices.Clone(c.classes), b.Class("gpu"))...),
		Evaluator:  selector.NewEvaluator(cel.NewCache(10, cel.Features{EnableListTypeAttributes: features.ListTypeAttributes})),
		StepBudget: c.budget,
	}
}

func (c cluster) site() allocator.NodeView {
	usage, store := ledger.New(), inventory.NewStore(allocator.InventoryOptions(c.solver().Features))
	usage.Follow(store)
	publish := func(slices []*b.SliceBuilder) {
		for _, slice := range slices {
			published := slice.Obj()
			store.RefreshSlice(published.Name, func() *resourceapi.ResourceSlice { return published })
		}
	}
	publish(c.before)
	for _, claim := range c.held {
		usage.Refresh(claim.Namespace+"/"+claim.Name, func() *resourceapi.ResourceClaim { return claim })
	}
	publish(c.slices)
	node := c.node
	if node == nil {
		node = b.Node("n")
	}
	return allocator.NodeView{Node: node, Pools: store.OnNode(node), Usage: usage}
}

func (c cluster) solve(ctx context.Context, claims ...*b.ClaimBuilder) (*allocator.Outcome, error) {
	return c.solver().Prepare(objects(claims)).Solve(ctx, c.site())
}

func objects(claims []*b.ClaimBuilder) []*resourceapi.ResourceClaim {
	var result []*resourceapi.ResourceClaim
	for _, claim := range claims {
		result = append(result, claim.Obj())
	}
	return result
}

// mustFit solves and returns the results, one a claim.
func (c cluster) mustFit(t *testing.T, claims ...*b.ClaimBuilder) []resourceapi.AllocationResult {
	t.Helper()
	outcome, err := c.solve(t.Context(), claims...)
	require.NoError(t, err)
	if !outcome.Fits() {
		require.Fail(t, "there should be a solution", outcome.Reason())
	}
	return outcome.Results
}

// mustNotFit solves and returns the outcome, which contains the reason.
func (c cluster) mustNotFit(t *testing.T, claims ...*b.ClaimBuilder) *allocator.Outcome {
	t.Helper()
	outcome, err := c.solve(t.Context(), claims...)
	require.NoError(t, err)
	require.False(t, outcome.Fits(), "there should be no solution")
	return outcome
}

// chosen lists the devices of a result as request=pool/device.
func chosen(result resourceapi.AllocationResult) []string {
	var list []string
	for _, r := range result.Devices.Results {
		list = append(list, r.Request+"="+r.Pool+"/"+r.Device)
	}
	return list
}

// without returns coreFeatures without the features that clear switches off.
func without(clear func(*structured.Features)) *structured.Features {
	features := coreFeatures
	clear(&features)
	return &features
}

// onNode makes a slice for node n with the pool named like the slice.
func onNode(name string, devices ...*b.DeviceBuilder) *b.SliceBuilder {
	return b.Slice(name).OnNode("n").Devices(devices...)
}

// gpus makes plain devices gpu-0, gpu-1 and so on.
func gpus(n int) []*b.DeviceBuilder { return b.NumberedDevices("gpu", n) }

// heldBy returns a claim of another pod that holds devices.
func heldBy(name, pool string, devices ...string) *resourceapi.ResourceClaim {
	return b.Claim(name, b.Request("gpu", "gpu")).Allocated(pool, devices...)
}

// names lists name-0 to name-(n-1).
func names(name string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s-%d", name, i)
	}
	return list
}
