package allocator_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// TestAnyOrderOfRequests compares with the oracle, in every order of the requests of each claim and in both
// orders of the claims. Whether there is a solution must not depend on the order, and each plan must be valid.
// Without a solution the answer must be an error if and only if a device or request could not be judged.
func TestAnyOrderOfRequests(t *testing.T) {
	t.Parallel()
	choosy := worlds{fromSeed: choosyFromSeed, tooHard: 2000}
	choosy.each(t, 14_000_000_000, scenarioCount(3_000), func(t *testing.T, s scenario, celCache *cel.Cache) outcome {
		if len(devicesIn(s.slices)) > oracleDevices {
			return leftOut
		}
		o := newOracle(t.Context(), s, celCache)
		want, wantErr := o.solve()
		if errors.Is(wantErr, errOracleSteps) {
			return leftOut
		}
		require.NoError(t, onlyOfNode(wantErr))
		result := impossible
		site, solver := s.solverAndSite(celCache)
		for _, claims := range inAnyOrder(s.claims) {
			s.claims = claims
			got, err := solver.Prepare(claims).Solve(t.Context(), site)
			switch {
			case err == nil && got.GaveUp:
				return gaveUp
			case err != nil && (want != nil || !o.doubts() && !tooMany(err)):
				t.Errorf("the oracle has a solution: %t; ours is %v\n%s", want != nil, err, s)
			case err != nil:
				result = failed
			case got.Fits() != (want != nil):
				t.Errorf("the oracle has a solution: %t; ours: %t\n%s", want != nil, got.Fits(), s)
			case got.Fits():
				result = allocated
				if violations := s.violations(t, got.Results, celCache); len(violations) > 0 {
					t.Errorf("%v\n%s", violations, s)
				}
			}
			if t.Failed() {
				return result
			}
		}
		return result
	})
}

// inAnyOrder lists the claims with their requests in every order, and in both orders of two claims.
func inAnyOrder(claims []*resourceapi.ResourceClaim) (all [][]*resourceapi.ResourceClaim) {
	all = [][]*resourceapi.ResourceClaim{nil}
	for _, claim := range claims {
		var longer [][]*resourceapi.ResourceClaim
		for _, requests := range permutations(claim.Spec.Devices.Requests) {
			other := claim.DeepCopy()
			other.Spec.Devices.Requests = requests
			for _, before := range all {
				longer = append(longer, append(slices.Clone(before), other))
			}
		}
		all = longer
	}
	if len(claims) < 2 {
		return all
	}
	for _, one := range slices.Clone(all) {
		other := slices.Clone(one)
		slices.Reverse(other)
		all = append(all, other)
	}
	return all
}

func permutations[T any](list []T) (all [][]T) {
	if len(list) < 2 {
		return [][]T{list}
	}
	for i := range list {
		for _, rest := range permutations(slices.Delete(slices.Clone(list), i, i+1)) {
			all = append(all, append([]T{list[i]}, rest...))
		}
	}
	return all
}

// onlyOfNode drops the error about invalid pools, because it is not an error of the claims.
func onlyOfNode(err error) error {
	if errors.Is(err, structured.ErrFailedAllocationOnNode) {
		return nil
	}
	return err
}

// tooMany reports whether claims ask for more devices than a claim can have.
func tooMany(err error) bool { return strings.Contains(err.Error(), "a claim can have at most") }

// doubts reports whether any device or request could not be judged, even one that the search does not reach.
func (o *oracle) doubts() bool {
	for _, slots := range o.wishes {
		for _, wishes := range slots {
			if slices.ContainsFunc(wishes, o.doubtsAny) {
				return true
			}
		}
	}
	return false
}

func (o *oracle) doubtsAny(w *wish) bool {
	return w.err != nil || slices.ContainsFunc(o.devices, func(d device) bool {
		matches, err := o.selectable(w, d)
		if !matches {
			return err != nil
		}
		if _, err = o.fitsWhole(w, d); err != nil {
			return true
		}
		for _, derived := range w.DerivedAttributes {
			if _, err := attributeFor(o.ctx, o.celCache, w, d, derived.Name); err != nil {
				return true
			}
		}
		return false
	})
}
