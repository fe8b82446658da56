package allocator_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"sigs.k8s.io/yaml"

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

// compare returns how our answer differs from upstream's, "" if it does not.
// Giving up is no answer.
func (s scenario) compare(ctx context.Context, celCache *cel.Cache) (string, outcome) {
	got, gotErr := s.run(ctx, allocator.New, celCache)
	if errors.Is(gotErr, allocator.ErrGaveUp) {
		return "", gaveUp
	}
	want, wantErr := s.run(ctx, structured.NewAllocator, celCache)
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

func outcomeOf(results []resourceapi.AllocationResult, err error) outcome {
	switch {
	case err != nil:
		return failed
	case results != nil:
		return allocated
	}
	return impossible
}

type outcome int

const (
	allocated outcome = iota
	impossible
	failed
	gaveUp
)

func (o outcome) String() string {
	return [...]string{"allocated", "impossible", "failed", "given up"}[o]
}

// TestSameAsUpstream compares with the structured allocator on random scenarios:
// the same devices for the same requests, the same config and node selectors, an
// error where it has one.
func TestSameAsUpstream(t *testing.T) {
	forScenarios(t, 0, scenarioCount(t, 20_000), func(t *testing.T, s scenario, celCache *cel.Cache) outcome {
		diff, result := s.compare(t.Context(), celCache)
		if diff != "" {
			t.Errorf("%s\n%s", diff, s)
		}
		return result
	})
}

func (s scenario) String() string {
	text, err := yaml.Marshal(map[string]any{
		"features": s.features, "node": s.node.Labels, "slices": s.slices, "claims": s.claims,
		"allocated": fmt.Sprint(s.state.AllocatedDevices.UnsortedList()),
	})
	if err != nil {
		return err.Error()
	}
	return string(text)
}
