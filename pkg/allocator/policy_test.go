package allocator_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	b "github.com/quartermaster-dra/quartermaster/internal/builder"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// lastFirst is a policy that prefers the devices which others prefer least.
type lastFirst struct{}

func (lastFirst) Order(_ *inventory.NodePool, _ *ledger.PoolUsage, candidates bitset.Set) []int {
	order := slices.Collect(candidates.All())
	slices.Reverse(order)
	return order
}

func TestPolicyDecidesWhichSolution(t *testing.T) {
	c := nodeWith(0, numbered(gpus(8), "numa", 0, 1)...)
	solver := c.solver()
	solver.Policy = lastFirst{}
	outcome, err := solver.Prepare(objects([]*b.ClaimBuilder{wants(3).Match("gpu.example.com/numa")})).Solve(t.Context(), c.site())
	require.NoError(t, err)
	require.Equal(t, []string{"gpu=p/gpu-7", "gpu=p/gpu-5", "gpu=p/gpu-3"}, chosen(outcome.Results[0]))
}

// TestPolicyDoesNotDecideWhetherThereIsOne compares with upstream on random scenarios:
// with a policy there is a solution if there is one without, and it is valid. An error
// at one device is met if upstream meets it, or not at all if a solution is met first.
func TestPolicyDoesNotDecideWhetherThereIsOne(t *testing.T) {
	forScenarios(t, 3_000_000_000, scenarioCount(t, 6_000), func(t *testing.T, s scenario, celCache *cel.Cache) outcome {
		s.features.ListTypeAttributes = true // Otherwise lists are values of unknown type, see Policy.
		want, wantErr := s.forUpstream().run(t.Context(), structured.NewAllocator, celCache)
		solver := allocator.Solver{
			Features: s.features, Classes: s.classes, Evaluator: selector.NewEvaluator(celCache), Policy: lastFirst{},
		}
		usage := s.usage()
		store := inventory.FromSlices(s.slices, allocator.InventoryOptions(s.features))
		got, err := solver.Prepare(s.claims).Solve(t.Context(), allocator.Site{Node: s.node, Pools: store.OnNode(s.node), Usage: usage})
		switch {
		case err != nil || wantErr != nil:
			return failed
		case got.GaveUp:
			return gaveUp
		case got.Fits() != (want != nil):
			t.Errorf("upstream fits: %t, with a policy: %t\n%s", want != nil, got.Fits(), s)
		}
		if violations := s.violations(t, got.Results, celCache); got.Fits() && len(violations) > 0 {
			t.Errorf("%v\n%s", violations, s)
		}
		return outcomeOf(got.Results, nil)
	})
}
