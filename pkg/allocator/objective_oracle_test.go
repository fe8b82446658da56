package allocator_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/placement"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// objectives are the objectives for random worlds, used in turn. Their attributes are the generator's.
func objectives() []*allocator.Objective {
	closeness := []resourceapi.FullyQualifiedName{"example.com/root", "gpu.example.com/numa"}
	seen := &placement.Demand{
		Version: 2, Kinds: []string{placement.AnyDevice, isBig, isSmall},
		Shapes: []placement.Shape{
			{Weight: 0.4, Requests: []placement.Request{{Kind: 1, Count: 1}}},
			{Weight: 0.3, Requests: []placement.Request{{Kind: 2, Count: 2}}},
			{Weight: 0.2, Requests: []placement.Request{{Kind: 0, Count: 1, Amount: 0.3}}},
			{Weight: 0.1, MilliCPU: 1000, Memory: 512, Requests: []placement.Request{{Kind: 1, Count: 2}, {Kind: 2, Count: 1, Amount: 0.5}}},
		},
	}
	return []*allocator.Objective{
		{Closeness: closeness},
		{Closeness: closeness[1:], Demand: seen},
		{Closeness: []resourceapi.FullyQualifiedName{}, Demand: seen},
		{Closeness: closeness, Strategy: allocator.Spread},
	}
}

// TestBestOfAll compares with brute force over all solutions. The plan has the best value in at least 99 of
// 100 worlds, its value equals that of a simple calculation, and it is never worse than the first solution.
// There is a plan if and only if there is one without an objective.
func TestBestOfAll(t *testing.T) {
	all := objectives()
	var worlds, best, alone, firsts int
	celCache := newCache()
	for i := range scenarioCount(1_500) {
		s := fromSeed(int64(5_000_000_000 + i))
		s.asAPI = i%2 == 0
		if i%5 == 2 {
			s.takingOfNode()
		}
		chosenBy := all[i%len(all)]
		site, solver := s.solverAndSite(celCache)
		site.Objective = chosenBy
		site.Free, site.Asked = allocator.Resources{MilliCPU: 4000, Memory: 2048}, allocator.Resources{MilliCPU: 1000, Memory: 600}
		if i%3 == 1 {
			site.Failed = func(_ inventory.PoolID, device string) int { return (len(device) + int(device[len(device)-1])) % 3 }
		}
		task := solver.Prepare(s.claims)
		got, err := task.Solve(t.Context(), site)
		site.Objective = nil
		want, wantErr := task.Solve(t.Context(), site)
		require.Equal(t, wantErr, err, "seed %d", i)
		if err != nil {
			continue
		}
		require.Equal(t, want.Fits(), got.Fits(), "seed %d\n%s", i, s)
		if !got.Fits() || len(devicesIn(s.slices)) > oracleDevices {
			continue
		}
		require.LessOrEqual(t, got.Value.Compare(got.FirstFit), 0)
		require.Empty(t, s.violations(t, got.Results, celCache), "seed %d\n%s", i, s)
		valuer := newValuer(t, s, celCache, chosenBy)
		valuer.failed = site.Failed
		bestValue, solutions, complete := valuer.best()
		if !complete {
			continue
		}
		worlds++
		if solutions == 1 {
			alone++
		}
		if got.Value == got.FirstFit {
			firsts++
		}
		if order := compareAbout(got.Value, bestValue); order == 0 {
			best++
		} else {
			require.Positive(t, order, "seed %d: our value %v, the best one is %v\n%s", i, got.Value, bestValue, s)
			t.Logf("seed %d: %v after %d of %d solutions, the best is %v", i, got.Value, got.Compared, solutions, bestValue)
		}
	}
	t.Logf("%d worlds: the best plan in %d; only one solution in %d; the first solution in %d", worlds, best, alone, firsts)
	require.GreaterOrEqual(t, best*100, worlds*99)
}

// takingOfNode makes two devices of three such that stand for CPU of the node or need memory, in different amounts.
func (s scenario) takingOfNode() {
	amounts := []string{"300m", "900m", "1500m", "2800m"}
	n := 0
	for _, slice := range s.slices {
		for i := range slice.Spec.Devices {
			cpu, memory := resource.MustParse(amounts[n%len(amounts)]), resource.MustParse("500")
			takes := make(map[v1.ResourceName]resourceapi.NodeAllocatableResource)
			switch n++; n % 3 {
			case 1:
				takes[v1.ResourceCPU] = resourceapi.NodeAllocatableResource{Mapping: &resourceapi.NodeAllocatableMapping{DeviceMultiplier: &cpu}}
			case 2:
				takes[v1.ResourceMemory] = resourceapi.NodeAllocatableResource{Overhead: &resourceapi.NodeAllocatableOverhead{PerPod: &memory}}
			}
			slice.Spec.Devices[i].NodeAllocatableResources = takes
		}
	}
}

func (s scenario) solverAndSite(celCache *cel.Cache) (allocator.NodeView, *allocator.Solver) {
	solver := &allocator.Solver{Features: s.features, Classes: s.classes, Evaluator: selector.NewEvaluator(celCache), AsUpstream: !s.asAPI}
	store := inventory.FromSlices(s.slices, allocator.InventoryOptions(s.features))
	return allocator.NodeView{Node: s.node, Pools: store.OnNode(s.node), Usage: s.usage()}, solver
}

// compareAbout is Compare with a tolerance for the order of summation.
func compareAbout(v, w allocator.Value) int {
	if v.Failed == w.Failed && v.NotReady == w.NotReady && v.Apart == w.Apart && math.Abs(v.Cost-w.Cost) < 3e-9 {
		v.Cost = w.Cost
	}
	return v.Compare(w)
}
