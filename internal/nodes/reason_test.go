package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/internal/nodes"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// deviceError is about one device.
type deviceError struct{ device string }

func (e deviceError) Error() string       { return "device " + e.device + ": no such attribute" }
func (e deviceError) OnDevice() string    { return "on " + e.device + ": no such attribute" }
func (deviceError) WithoutDevice() string { return "no such attribute" }

func TestOfError(t *testing.T) {
	t.Parallel()
	found, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("found enough nodes"))
	tests := map[string]struct {
		ctx  context.Context
		err  error
		want string
	}{
		"of all nodes":    {ctx: context.Background(), err: errors.New("no class"), want: "cannot allocate all claims: no class"},
		"of one device":   {ctx: context.Background(), err: fmt.Errorf("claim c: %w", deviceError{"gpu-7"}), want: "cannot allocate all claims: on gpu-7: no such attribute"},
		"not known yet":   {ctx: context.Background(), err: fmt.Errorf("takes long: %w", selector.ErrPending), want: "takes long: " + selector.ErrPending.Error()},
		"told to stop":    {ctx: found, err: allocator.ErrInterrupted, want: "told to stop looking for devices: found enough nodes"},
		"pending at stop": {ctx: found, err: selector.ErrPending, want: "told to stop looking for devices: found enough nodes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, new(nodes.Reasons).OfError(test.ctx, builder.Node("n1"), test.err))
		})
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		outcome allocator.Outcome
		want    string
		full    bool
	}{
		"nothing found":       {want: "cannot allocate all claims: ", full: true},
		"invalid pools":       {outcome: allocator.Outcome{InvalidPools: true}, want: "invalid resource pools were encountered: ", full: true},
		"gave up on the node": {outcome: allocator.Outcome{GaveUp: true}, want: "; so does a larger stepBudget among the scheduler's arguments for plugin Quartermaster"},
		"gave up with those on others": {
			outcome: allocator.Outcome{GaveUp: true, CommonBudget: true},
			want:    "; so does a larger attemptStepBudget among the scheduler's arguments for plugin Quartermaster",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reason, full := new(nodes.Reasons).Of(&test.outcome)
			require.Equal(t, test.want, reason)
			require.Equal(t, test.full, full)
		})
	}
}

// TestOfWithoutTime: who has spent the time for reasons gets no full ones.
func TestOfWithoutTime(t *testing.T) {
	t.Parallel()
	var reasons nodes.Reasons
	_, full := reasons.Of(&allocator.Outcome{})
	require.True(t, full)
	require.Positive(t, reasons.Spent.Load())
	reasons.Spent.Store(int64(nodes.Budget) + 1)
	_, full = reasons.Of(&allocator.Outcome{})
	require.False(t, full)
}

// TestFewReasons: one device is named, or one on each of a few nodes; on many nodes with devices of many names the rest is told alike.
func TestFewReasons(t *testing.T) {
	t.Parallel()
	var reasons nodes.Reasons
	told := make(map[string]int)
	for i := range 5000 {
		told[reasons.OfError(context.Background(), builder.Node("n"), deviceError{fmt.Sprint("gpu-", i)})]++
	}
	require.Len(t, told, 17)
	require.Equal(t, 5000-16, told["cannot allocate all claims: no such attribute"])
}
