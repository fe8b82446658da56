package allocator_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

func TestMain(m *testing.M) {
	// Upstream has three copies of its allocator and picks the oldest that knows
	// all features. The newest is the law for us.
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

// errorClass is what callers of an allocator can tell apart.
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

var errTooSlow = errors.New("upstream needs too long")

// compare returns how our answer differs from upstream's, "" if it does not.
// Giving up is no answer, and neither is none in time.
func (s scenario) compare(ctx context.Context, celCache *cel.Cache) (string, outcome) {
	got, gotErr := s.run(ctx, allocator.New, celCache)
	if errors.Is(gotErr, allocator.ErrGaveUp) {
		return "", gaveUp
	}
	limited, cancel := context.WithTimeoutCause(ctx, upstreamPatience, errTooSlow)
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
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.Comparer(func(a, b *types.UID) bool { return (a == nil) == (b == nil) }))
}

// TestSameAsUpstream compares with the structured allocator on random scenarios
// over all features: the same devices, shares and consumed capacity for the same
// requests, the same config and node selectors, an error where it has one, and
// the same kind of error.
func TestSameAsUpstream(t *testing.T) {
	forScenarios(t, 0, scenarioCount(t, 20_000), func(t *testing.T, s scenario, celCache *cel.Cache) outcome {
		diff, result := s.compare(t.Context(), celCache)
		if diff != "" {
			t.Errorf("%s\n%s", diff, s)
		}
		return result
	})
}
