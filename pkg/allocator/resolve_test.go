package allocator_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// Claims that do not contain their requests.
func TestResolve(t *testing.T) {
	t.Parallel()
	world := cluster{slices: []*b.SliceBuilder{b.NodeSlice("n", b.Devices("gpu-0", "gpu-1")...)}}
	solver := world.solver()
	unknown := errors.New("parameters are missing")
	solver.Resolve = func(claim *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
		switch claim.Name {
		case "late":
			return nil, unknown
		case "empty":
			return b.Claim("empty").Obj(), nil
		}
		return b.Claim(claim.Name, b.Request("first", "gpu"), b.Request("second", "gpu")).Obj(), nil
	}
	claim := b.Claim("c").Obj()
	before := claim.DeepCopy()
	task := solver.Prepare([]*resourceapi.ResourceClaim{claim})
	require.NoError(t, task.Err())
	require.Empty(t, cmp.Diff(before, claim), "the claim was modified")
	outcome, err := task.Solve(t.Context(), world.site())
	require.NoError(t, err)
	require.Len(t, outcome.Results, 1)
	require.Len(t, outcome.Results[0].Devices.Results, 2)

	claims := []*resourceapi.ResourceClaim{claim, b.Claim("late").Obj()}
	task = solver.Prepare(claims)
	require.Equal(t, unknown, task.Err())
	_, err = task.Solve(t.Context(), world.site())
	require.Equal(t, unknown, err)
	_, err = task.Check(t.Context(), world.site())
	require.Equal(t, unknown, err)
	require.Same(t, claim, claims[0], "the list was modified")
	var classes []string
	for class := range task.Classes() {
		classes = append(classes, class)
	}
	require.Equal(t, []string{"gpu", "gpu"}, classes)

	outcome, err = solver.Prepare([]*resourceapi.ResourceClaim{b.Claim("empty").Obj()}).Solve(t.Context(), world.site())
	require.NoError(t, err)
	require.Empty(t, outcome.Results[0].Devices.Results, "what asks for nothing gets nothing")
}

// Resolved claims can have as many devices as they have requests; others as in v1.
func TestDevicesOfResolvedClaims(t *testing.T) {
	t.Parallel()
	const wanted = resourceapi.AllocationResultsMaxSize + 8
	var devices []string
	var requests []*b.RequestBuilder
	for i := range wanted {
		devices = append(devices, fmt.Sprintf("gpu-%02d", i))
		requests = append(requests, b.Request(fmt.Sprintf("request-%02d", i), "gpu"))
	}
	world := cluster{slices: []*b.SliceBuilder{b.NodeSlice("n", b.Devices(devices...)...)}}
	solver := world.solver()
	large := b.Claim("c", requests...).Obj()
	solver.Resolve = func(claim *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
		if claim == large {
			return claim, nil
		}
		return large, nil
	}
	outcome, err := solver.Prepare([]*resourceapi.ResourceClaim{b.Claim("c").Obj()}).Solve(t.Context(), world.site())
	require.NoError(t, err)
	require.Len(t, outcome.Results, 1)
	require.Len(t, outcome.Results[0].Devices.Results, wanted)
	_, err = solver.Prepare([]*resourceapi.ResourceClaim{large}).Solve(t.Context(), world.site())
	require.ErrorContains(t, err, "a claim can have at most 32")
}
