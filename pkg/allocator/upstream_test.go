package allocator_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

func TestMain(m *testing.M) {
	// Upstream has three copies of its allocator and picks the oldest that knows all features. We compare
	// with the newest.
	structured.EnableAllocators("experimental")
	os.Exit(m.Run())
}

type newAllocator func(context.Context, structured.Features, structured.AllocatedState, structured.DeviceClassLister,
	[]*resourceapi.ResourceSlice, *cel.Cache) (structured.Allocator, error)

func (s scenario) run(ctx context.Context, create newAllocator, celCache *cel.Cache) ([]resourceapi.AllocationResult, error) {
	a, err := create(ctx, s.features, s.state, s.classes, s.slices, celCache)
	if err != nil {
		return nil, err
	}
	return a.Allocate(ctx, s.node, s.claims)
}

// errorClass returns the part of an error that callers of an allocator can distinguish.
func errorClass(err error) string {
	switch {
	case err == nil:
		return "none"
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		return "only this node"
	default:
		return "fatal"
	}
}

// upstreamPatience is how long upstream may search. The generator's scenarios take it
// far less than a millisecond; the few that do not are skipped and counted.
const upstreamPatience = 3 * time.Second

// shortPatience is for large worlds, some of which take upstream minutes: one in seven is skipped. With 100 ms it would be one in eight, for twice
// the time of all scenarios together. The race detector slows upstream down as well.
func shortPatience() time.Duration {
	if raceDetector {
		return 100 * time.Millisecond
	}
	return 25 * time.Millisecond
}

var errTooSlow = errors.New("upstream needs too long")

// compare returns how our answer differs from upstream's, "" if it does not. Giving up is no answer, nor is a timeout.
func (s scenario) compare(ctx context.Context, celCache *cel.Cache) (string, outcome) {
	return s.compareWithin(ctx, upstreamPatience, celCache)
}

func (s scenario) compareWithin(ctx context.Context, patience time.Duration, celCache *cel.Cache) (string, outcome) {
	got, gotErr := s.run(ctx, allocator.New, celCache)
	if errors.Is(gotErr, allocator.ErrGaveUp) {
		return "", gaveUp
	}
	limited, cancel := context.WithTimeoutCause(ctx, patience, errTooSlow)
	defer cancel()
	want, wantErr := s.forUpstream().run(limited, structured.NewAllocator, celCache)
	if errors.Is(wantErr, errTooSlow) {
		return "", skipped
	}
	if errorClass(wantErr) != errorClass(gotErr) {
		return fmt.Sprintf("upstream's error is %v, ours is %v", wantErr, gotErr), failed
	}
	if diff := diffOf(want, got); diff != "" {
		return "allocation differs (-upstream +ours):\n" + diff, allocated
	}
	return "", outcomeOf(got, gotErr)
}

// diffOf returns what differs; lists without entries are the same as none.
// IDs of shares are random, so only their presence counts.
func diffOf(want, got any) string {
	if reflect.DeepEqual(want, got) {
		return "" // Many times as fast, and the rule.
	}
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.Comparer(func(a, b *types.UID) bool { return (a == nil) == (b == nil) }))
}

// TestSameAsUpstream compares with the structured allocator on random scenarios over all features: the same
// devices, shares and consumed capacity for the same requests, the same config and node selectors, errors for
// the same inputs, and the same kind of error.
//
// One scenario in ten is a large world. The test prints the number of solutions that the first choices do not
// find: searches that never turn back would prove little.
func TestSameAsUpstream(t *testing.T) {
	total := differentialCount(t)
	t.Run("small", func(t *testing.T) { smallWorlds.sameAsUpstream(t, total-total/10, upstreamPatience) })
	t.Run("large", func(t *testing.T) { largeWorlds.sameAsUpstream(t, total/10, shortPatience()) })
}

func (w worlds) sameAsUpstream(t *testing.T, total int, patience time.Duration) {
	var solved, turnedBack atomic.Int64
	w.each(t, 0, total, func(t *testing.T, s scenario, celCache *cel.Cache) outcome {
		diff, result := s.compareWithin(t.Context(), patience, celCache)
		if diff != "" {
			t.Errorf("%s\n%s", diff, s)
		}
		if result == allocated {
			solved.Add(1)
			if s.turnsBack(t, celCache) {
				turnedBack.Add(1)
			}
		}
		return result
	})
	share := 100 * float64(turnedBack.Load()) / float64(max(solved.Load(), 1))
	t.Logf("%d of %d solutions (%.1f %%) needed backtracking", turnedBack.Load(), solved.Load(), share)
	require.Greater(t, share, 1.0, "too few solutions need backtracking")
}

// turnsBack reports whether the first choices lead nowhere.
func (s scenario) turnsBack(t *testing.T, celCache *cel.Cache) bool {
	solver := allocator.Solver{Features: s.features, Classes: s.classes, Evaluator: selector.NewEvaluator(celCache), AsUpstream: true}
	outcome, err := s.solveBy(t, solver, s.claims...)
	require.NoError(t, err)
	return outcome.TurnedBack
}
