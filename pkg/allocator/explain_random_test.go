package allocator_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// solve runs the solver on the scenario's claims, or on others.
func (s scenario) solve(t *testing.T, celCache *cel.Cache, claims ...*resourceapi.ResourceClaim) (*allocator.Outcome, error) {
	return s.solveBy(t, allocator.Solver{Features: s.features, Classes: s.classes, Evaluator: selector.NewEvaluator(celCache)}, claims...)
}

func (s scenario) solveBy(t *testing.T, solver allocator.Solver, claims ...*resourceapi.ResourceClaim) (*allocator.Outcome, error) {
	store := inventory.FromSlices(s.slices, allocator.InventoryOptions(s.features))
	site := allocator.NodeView{Node: s.node, Pools: store.OnNode(s.node), Usage: s.usage()}
	return solver.Prepare(claims).Solve(t.Context(), site)
}

// usage is the allocated state as a ledger view. It names no claims.
func (s scenario) usage() ledger.View {
	devices := make(map[inventory.PoolID]map[string]ledger.DeviceUsage)
	use := func(driver, pool, device string, change func(*ledger.DeviceUsage)) {
		id := inventory.PoolID{Driver: driver, Name: pool}
		if devices[id] == nil {
			devices[id] = make(map[string]ledger.DeviceUsage)
		}
		usage := devices[id][device]
		change(&usage)
		devices[id][device] = usage
	}
	for id := range s.state.AllocatedDevices {
		use(id.Driver.String(), id.Pool.String(), id.Device.String(), func(u *ledger.DeviceUsage) {
			u.Holders = append(u.Holders, ledger.ClaimRef{})
		})
	}
	for shared := range s.state.AllocatedSharedDeviceIDs {
		id := shared.GetDeviceID()
		use(id.Driver.String(), id.Pool.String(), id.Device.String(), func(u *ledger.DeviceUsage) {
			u.Shares = append(u.Shares, ledger.Share{})
		})
	}
	for id, consumed := range s.state.AggregatedCapacity {
		share := ledger.Share{Consumed: make(map[resourceapi.QualifiedName]resource.Quantity)}
		for name, amount := range consumed {
			share.Consumed[name] = *amount
		}
		use(id.Driver.String(), id.Pool.String(), id.Device.String(), func(u *ledger.DeviceUsage) {
			u.Shares = append(u.Shares, share)
		})
	}
	view := make(ledger.Fixed)
	for id, usages := range devices {
		view[id] = ledger.NewPoolUsage(usages)
	}
	return view
}

// TestExplanationsOfRandomScenarios asks for explanations of all scenarios without a solution, and compares
// them with the solver's answers to parts of the question.
func TestExplanationsOfRandomScenarios(t *testing.T) {
	t.Parallel()
	forScenarios(t, 6_000_000_000, scenarioCount(5_000), func(t *testing.T, s scenario, celCache *cel.Cache) outcome {
		result, err := s.solve(t, celCache, s.claims...)
		switch {
		case err != nil:
			return failed
		case result.Fits():
			require.Empty(t, result.Reason())
			require.Nil(t, result.Explain())
			return allocated
		case result.GaveUp:
			return gaveUp
		}
		explanation := result.Explain()
		require.Equal(t, result.Reason(), explanation.Reason)
		require.NotEmpty(t, explanation.Reason)
		require.NotContains(t, explanation.Reason, "\n")
		require.Equal(t, explanation, result.Explain(), "asked again")
		require.NotContains(t, explanation.String(), "%!", "a verb without its value")
		for i := range explanation.Claims {
			s.checkExplainedClaim(t, celCache, s.claims[i], &explanation.Claims[i], explanation.Combination)
		}
		return impossible
	})
}

// checkExplainedClaim compares with the solver's answers for single requests.
func (s scenario) checkExplainedClaim(t *testing.T, celCache *cel.Cache, claim *resourceapi.ResourceClaim, explained *allocator.ExplainedClaim, combination string,
) {
	for i := range explained.Requests {
		checkNumbers(t, s, &explained.Requests[i])
	}
	for i := range claim.Spec.Devices.Requests {
		alone := claim.DeepCopy()
		alone.Spec.Devices.Requests = alone.Spec.Devices.Requests[i : i+1]
		answer, err := s.solve(t, celCache, alone)
		if err != nil || !answer.Fits() {
			continue
		}
		possible := 0
		for _, r := range explained.Requests {
			if name, _, _ := strings.Cut(r.Request, "/"); name == claim.Spec.Devices.Requests[i].Name && r.Shortage == "" {
				possible++
			}
		}
		require.Positive(t, possible, "request %s has a solution if it is alone\n%s", claim.Spec.Devices.Requests[i].Name, s)
	}
	name := "claim default/" + claim.Name
	switch answer, err := s.solve(t, celCache, claim); {
	case err != nil:
	case !answer.Fits():
		require.NotContains(t, combination, name+": there are devices for it alone", "%s", s)
	default:
		require.NotContains(t, combination, name+", request", "the claim has a solution if it is alone\n%s", s)
		for _, c := range explained.Constraints {
			require.GreaterOrEqual(t, c.Best, c.Wanted, "the claim has a solution if it is alone\n%s", s)
		}
	}
}

// checkNumbers: every matching device is counted once.
func checkNumbers(t *testing.T, s scenario, r *allocator.ExplainedRequest) {
	sum := r.Available
	for _, obstacle := range r.Obstacles {
		require.Positive(t, obstacle.Devices)
		require.NotEqual(t, allocator.Available, obstacle.Cause)
		sum += obstacle.Devices
		if obstacle.Cause == allocator.Held {
			require.NotEmpty(t, obstacle.Claims, "%s", s)
		}
		for _, detail := range obstacle.Details {
			require.LessOrEqual(t, detail.Devices, obstacle.Devices)
			if short := detail.Shortfall; short != nil {
				require.Positive(t, short.By.Sign(), "%s: %+v", detail.Name, short)
			}
		}
	}
	require.Equal(t, r.Matching, sum, "available devices and obstacles\n%s", s)
	require.LessOrEqual(t, r.Matching, r.OfClass)
	require.LessOrEqual(t, r.OfClass, r.Published)
	if r.Shortage == "" && r.Wanted > 0 {
		require.GreaterOrEqual(t, r.Available, r.Wanted, "%s", s)
	}
}
