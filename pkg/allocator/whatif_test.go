package allocator_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// holders returns claims that hold everything in use in a scenario, some of them several devices or shares. A
// few devices have two holders, as after a conflict.
func (s scenario) holders(random *rand.Rand) []*resourceapi.ResourceClaim {
	holders := make([]*resourceapi.ResourceClaim, 4)
	for i := range holders {
		holders[i] = b.Claim(fmt.Sprintf("holder-%d", i), b.Request("gpu", "any")).Allocated("")
	}
	give := func(d device, shareID *types.UID, consumed amounts) {
		results := &holders[random.IntN(len(holders))].Status.Allocation.Devices.Results
		*results = append(*results, resourceapi.DeviceRequestAllocationResult{
			Request: "gpu", Driver: d.slice.Spec.Driver, Pool: d.slice.Spec.Pool.Name, Device: d.Name,
			ShareID: shareID, ConsumedCapacity: consumed,
			AdminAccess: ptr.To(random.IntN(10) == 0), // Admin access, which then is no use.
		})
	}
	for _, d := range devicesIn(s.slices) {
		if s.state.AllocatedDevices.Has(d.id()) {
			for range 1 + random.IntN(5)/4 {
				give(d, nil, nil)
			}
		}
		if !s.hasShares(d) {
			continue
		}
		for n := range 1 + random.IntN(3) {
			consumed := make(amounts)
			for name, sum := range s.state.AggregatedCapacity[d.id()] {
				consumed[name] = *resource.NewMilliQuantity(sum.MilliValue()/int64(n+1), sum.Format)
			}
			give(d, ptr.To(types.UID(fmt.Sprint("share-", n))), consumed)
		}
	}
	return holders
}

func ledgerOf(claims []*resourceapi.ResourceClaim) *ledger.Ledger {
	l := ledger.New()
	for _, claim := range claims {
		l.Refresh(claim.Namespace+"/"+claim.Name, func() *resourceapi.ResourceClaim { return claim })
	}
	return l
}

// solveWith returns the whole outcome of the scenario's claims for a given usage.
func (s scenario) solveWith(t *testing.T, celCache *cel.Cache, usage ledger.View) (answer answerText, reason string, result outcome) {
	shares := 0
	solver := allocator.Solver{
		Features: s.features, Classes: s.classes, Evaluator: selector.NewEvaluator(celCache),
		NewShareID: func() types.UID { shares++; return types.UID(fmt.Sprint("new-", shares)) },
	}
	store := inventory.FromSlices(s.slices, allocator.InventoryOptions(s.features))
	found, err := solver.Prepare(s.claims).Solve(t.Context(), allocator.NodeView{Node: s.node, Pools: store.OnNode(s.node), Usage: usage})
	switch {
	case err != nil:
		return answerFrom(nil, err), "", failed
	case found.GaveUp:
		return answerText{}, found.Reason(), gaveUp
	}
	return answerFrom(found.Results, nil), found.Reason(), outcomeOf(found.Results, nil)
}

// TestWithoutSomeClaims: the answer without some claims equals the answer as if they had never existed, in
// result and in reason. Removing claims one after the other equals removing all at once, and removing all
// leaves nothing.
func TestWithoutSomeClaims(t *testing.T) {
	forScenarios(t, 10_000_000_000, scenarioCount(4_000), func(t *testing.T, s scenario, celCache *cel.Cache) outcome {
		random := rand.New(rand.NewPCG(uint64(len(devicesIn(s.slices))), uint64(len(s.claims))))
		holders := s.holders(random)
		base := ledgerOf(holders)
		random.Shuffle(len(holders), func(i, j int) { holders[i], holders[j] = holders[j], holders[i] })
		gone := random.IntN(len(holders) + 1)
		var uids []types.UID
		oneByOne := ledger.View(base)
		for _, claim := range holders[:gone] {
			uids = append(uids, claim.UID)
			oneByOne = ledger.Without(oneByOne, sets.New(claim.UID).Has)
		}
		want, wantReason, result := s.solveWith(t, celCache, ledgerOf(holders[gone:]))
		for name, view := range map[string]ledger.View{"at once": ledger.Without(base, sets.New(uids...).Has), "one by one": oneByOne} {
			got, reason, _ := s.solveWith(t, celCache, view)
			if diff := diffOf(want, got); diff != "" || reason != wantReason {
				t.Errorf("without %v, removed %s (-never there +removed):\n%s\nreason %q, but %q\n%s", uids, name, diff, wantReason, reason, s)
			}
		}
		return result
	})
}

// TestUsageIsTheSameFromBothSides: the ledger's view of claims and the allocated state
// of the same claims, as the drop-in takes it, lead to the same result.
func TestUsageIsTheSameFromBothSides(t *testing.T) {
	forScenarios(t, 11_000_000_000, scenarioCount(3_000), func(t *testing.T, s scenario, celCache *cel.Cache) outcome {
		var holders []*resourceapi.ResourceClaim
		for _, d := range devicesIn(s.slices) {
			holder := func(kind string) *resourceapi.DeviceRequestAllocationResult {
				claim := b.Claim(fmt.Sprintf("%s-%d", kind, len(holders)), b.Request("gpu", "any")).Allocated(d.slice.Spec.Pool.Name, d.Name)
				claim.Status.Allocation.Devices.Results[0].Driver = d.slice.Spec.Driver
				holders = append(holders, claim)
				return &claim.Status.Allocation.Devices.Results[0]
			}
			if s.state.AllocatedDevices.Has(d.id()) {
				holder("whole")
			}
			if s.hasShares(d) {
				result := holder("share")
				result.ShareID, result.ConsumedCapacity = ptr.To(types.UID("share")), make(amounts)
				consumed := s.state.AggregatedCapacity[d.id()]
				for _, name := range slices.SortedFunc(maps.Keys(consumed), cmp.Compare) {
					result.ConsumedCapacity[name] = *consumed[name]
				}
			}
		}
		want, _, result := s.solveWith(t, celCache, s.usage())
		if got, _, _ := s.solveWith(t, celCache, ledgerOf(holders)); diffOf(want, got) != "" {
			t.Errorf("results differ (-state +ledger):\n%s\n%s", diffOf(want, got), s)
		}
		return result
	})
}
