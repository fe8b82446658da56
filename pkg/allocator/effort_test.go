package allocator_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// singles makes n requests for one device each.
func singles(n int) []*b.RequestBuilder {
	var requests []*b.RequestBuilder
	for _, name := range names("r", n) {
		requests = append(requests, b.Request(name, "gpu"))
	}
	return requests
}

// counts makes a claim with a request for each number of devices.
func counts(numbers ...int64) *b.ClaimBuilder {
	var requests []*b.RequestBuilder
	for i, name := range names("r", len(numbers)) {
		requests = append(requests, b.Request(name, "gpu").Count(numbers[i]))
	}
	return b.Claim("gpus", requests...)
}

// TestSteps pins how many devices a search tries. A solution without wrong turns
// takes as many steps as it has devices.
func TestSteps(t *testing.T) {
	twoNUMANodes := nodeWith(0, numbered(gpus(8), "numa", 0, 1)...)
	tests := map[string]struct {
		cluster cluster
		claims  []*b.ClaimBuilder
		fits    bool
		steps   int
	}{
		"8 of 8":    {nodeWith(0, gpus(8)...), []*b.ClaimBuilder{wants(8)}, true, 8},
		"1 of 8":    {nodeWith(0, gpus(8)...), []*b.ClaimBuilder{wants(1)}, true, 1},
		"all of 8":  {nodeWith(0, gpus(8)...), []*b.ClaimBuilder{wantsAll()}, true, 8},
		"16 of 128": {nodeWith(0, gpus(128)...), []*b.ClaimBuilder{wants(16)}, true, 16},
		// A device that is held is no candidate, so it costs nothing.
		"the last of 8": {nodeWith(7, gpus(8)...), []*b.ClaimBuilder{wants(1)}, true, 1},
		// Too few candidates are noticed before any is tried.
		"9 of 8":                   {nodeWith(0, gpus(8)...), []*b.ClaimBuilder{wants(9)}, false, 0},
		"1 of 8 that are all held": {nodeWith(8, gpus(8)...), []*b.ClaimBuilder{wants(1)}, false, 0},
		// The check for all requests together comes before any device is tried.
		"17 requests of 1 on 16":    {nodeWith(0, gpus(16)...), []*b.ClaimBuilder{b.Claim("gpus", singles(17)...)}, false, 0},
		"requests of 8 and 9 on 16": {nodeWith(0, gpus(16)...), []*b.ClaimBuilder{counts(8, 9)}, false, 0},
		"claims of 8 and 9 on 16":   {nodeWith(0, gpus(16)...), []*b.ClaimBuilder{wants(8), wants(9)}, false, 0},
		"8 and something that is not there, either way": {
			nodeWith(0, gpus(16)...).withClasses(b.Class("nothing", "false")),
			[]*b.ClaimBuilder{b.Claim("c", b.Request("r", "gpu").Count(8), nothing())}, false, 0,
		},
		// Devices of both NUMA nodes take turns: three of the wrong one are tried in
		// between, one for each place after the first.
		"4 of 8 on one NUMA node": {twoNUMANodes, []*b.ClaimBuilder{wants(4).Match("gpu.example.com/numa")}, true, 4 + 3},
		"5 of 8 on one NUMA node": {twoNUMANodes, []*b.ClaimBuilder{wants(5).Match("gpu.example.com/numa")}, false, 0},
		"9 of 8 on different ones of 8": {
			nodeWith(0, append(distinguished(gpus(8)), b.Device("twin").Attr("id", 7))...),
			[]*b.ClaimBuilder{wants(9).Distinct("gpu.example.com/id")}, false, 0,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outcome, err := tc.cluster.solve(t.Context(), tc.claims...)
			require.NoError(t, err)
			require.Equal(t, tc.fits, outcome.Fits())
			require.False(t, outcome.GaveUp)
			require.Equal(t, tc.steps, outcome.Steps)
		})
	}
}

// TestBudget searches with every budget up to one that suffices.
func TestBudget(t *testing.T) {
	c, claim := hard()
	full, err := c.solve(t.Context(), claim)
	require.NoError(t, err)
	require.True(t, full.Fits())

	for _, budget := range []int{1, 2, 100, full.Steps / 2} {
		c.budget = budget
		outcome := c.mustNotFit(t, claim)
		require.True(t, outcome.GaveUp)
		require.LessOrEqual(t, outcome.Steps, budget+1, "the step that is one too many is not taken, but counts")
		require.GreaterOrEqual(t, outcome.Steps, budget/20, "a check counts as much as some steps, and there is one a step at most")
		require.Contains(t, outcome.Reason(), "claim default/hard: gave up looking for devices after")
	}
	c.budget = 20 * full.Steps
	outcome, err := c.solve(t.Context(), claim)
	require.NoError(t, err)
	require.Empty(t, diffOf(full.Results, outcome.Results))
}

// nothing returns a request for devices that do not exist, with two alternatives.
func nothing() *b.RequestBuilder {
	return b.FirstAvailable("nothing", b.Request("one-way", "nothing"), b.Request("or-the-same", "nothing"))
}

func TestDefaultBudget(t *testing.T) {
	c, claim := infeasible()
	outcome := c.mustNotFit(t, claim)
	require.True(t, outcome.GaveUp)
	require.LessOrEqual(t, outcome.Steps, allocator.DefaultStepBudget+1)
	require.Greater(t, outcome.Steps, allocator.DefaultStepBudget/20)
}

// distinguished gives each device a different attribute value.
func distinguished(devices []*b.DeviceBuilder) []*b.DeviceBuilder {
	for i, device := range devices {
		device.Attr("id", i)
	}
	return devices
}

// interruption is a context that ends after a number of checks.
type interruption struct {
	context.Context
	looks  int
	cancel func()
}

func (c *interruption) Err() error {
	c.looks--
	if c.looks < 0 {
		c.cancel()
	}
	return c.Context.Err()
}

// TestInterruption ends the context at each of its checks. The answer must be that of an undisturbed search, or an error.
func TestInterruption(t *testing.T) {
	cause := errors.New("the scheduler found enough nodes")
	tests := map[string]struct {
		claim *b.ClaimBuilder
		fits  bool
	}{
		"with a solution":    {b.Claim("gpus", b.Request("a", "even").Count(3), b.Request("b", "gpu").Count(4)), true},
		"without a solution": {b.Claim("gpus", b.Request("a", "even").Count(3), b.Request("b", "gpu").Count(20)), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for looks := 0; ; looks++ {
				c := nodeWith(0, distinguished(gpus(8))...).withClasses(b.Class("even", attr+`.id % 2 == 0`))
				inner, cancel := context.WithCancelCause(t.Context())
				ctx := &interruption{inner, looks, func() { cancel(cause) }}
				outcome, err := c.solve(ctx, tc.claim)
				cancel(nil)
				if err == nil {
					require.Positive(t, looks, "a context that has ended must be noticed")
					require.Equal(t, tc.fits, outcome.Fits())
					require.False(t, outcome.GaveUp)
					return
				}
				requireInterrupted(t, err, cause)
			}
		})
	}
}

// TestInterruptionDuringSearch ends the context of a search that would take long.
func TestInterruptionDuringSearch(t *testing.T) {
	cause := errors.New("time is up")
	c, claim := hard()
	undisturbed, err := c.solve(t.Context(), claim)
	require.NoError(t, err)

	inner, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	ctx := &interruption{inner, 1 << 30, func() { cancel(cause) }}
	_, err = c.solve(ctx, claim)
	require.NoError(t, err)
	looks := 1<<30 - ctx.looks
	require.Greater(t, looks, undisturbed.Steps/100, "a search must look at its context every few steps")

	ctx = &interruption{inner, looks - 1, func() { cancel(cause) }}
	_, err = c.solve(ctx, claim)
	requireInterrupted(t, err, cause)
}

func TestContextThatHasEnded(t *testing.T) {
	cause := errors.New("the pod is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for _, n := range []int64{1, 9} {
		_, err := nodeWith(0, gpus(8)...).solve(ctx, wants(n))
		requireInterrupted(t, err, cause)
	}
	s := scenario{
		classes: classList(b.Class("gpu")), node: b.Node("n"),
		slices: []*resourceapi.ResourceSlice{onNode("p", gpus(8)...).Obj()},
		claims: []*resourceapi.ResourceClaim{wants(1).Obj()},
	}
	_, err := s.run(ctx, allocator.New, newCache())
	requireInterrupted(t, err, cause)
	require.False(t, allocator.IsNodeError(err), "it says nothing about the node")
}

func requireInterrupted(t *testing.T, err, cause error) {
	t.Helper()
	require.ErrorIs(t, err, allocator.ErrInterrupted)
	require.ErrorIs(t, err, cause)
}
