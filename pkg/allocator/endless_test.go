package allocator_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestEndlessCapacity: any author of a claim or a slice can write a number with a billion digits. Neither the
// search nor the explanation may calculate with it.
func TestEndlessCapacity(t *testing.T) {
	t.Parallel()
	_, err := nodeWith(0, bandwidth("10")...).everything().solve(t.Context(), wantsCapacity("bandwidth", "1e999999999"))
	require.ErrorContains(t, err, "too many digits to calculate with")
	result := nodeWith(0, bandwidth("1e999999999")...).everything().mustNotFit(t, wantsCapacity("bandwidth", "1"))
	require.Contains(t, result.Explain().String(), "too many digits to calculate with")
}

// TestEndlessCapacityOfTwoRequests: two requests of one class are compared before any device is looked at.
func TestEndlessCapacityOfTwoRequests(t *testing.T) {
	t.Parallel()
	claim := b.Claim("c", b.Request("a", "gpu"), b.Request("b", "gpu")).Obj()
	for i, value := range []string{"1e999999999", "1"} {
		claim.Spec.Devices.Requests[i].Exactly.Capacity = &resourceapi.CapacityRequirements{
			Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(value)}}
	}
	solver := &allocator.Solver{
		Features: allocator.Supported, Evaluator: selector.NewEvaluator(newCache()), Classes: classes{"gpu": b.Class("gpu")},
	}
	require.NoError(t, solver.Prepare([]*resourceapi.ResourceClaim{claim}).Err())
}
