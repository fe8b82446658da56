package allocator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
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
func (s scenario) compare(ctx context.Context, celCache *cel.Cache) (string, outcome) {
	want, wantErr := s.run(ctx, structured.NewAllocator, celCache)
	got, gotErr := s.run(ctx, allocator.New, celCache)
	if errorClass(wantErr) != errorClass(gotErr) {
		return fmt.Sprintf("upstream's error is %v, ours is %v", wantErr, gotErr), failed
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		return "allocation differs (-upstream +ours):\n" + diff, allocated
	}
	switch {
	case wantErr != nil:
		return "", failed
	case want != nil:
		return "", allocated
	}
	return "", impossible
}

type outcome int

const (
	allocated outcome = iota
	impossible
	failed
)

// scenarios is how many random scenarios are compared; the environment variable
// ALLOCATOR_SCENARIOS asks for more.
func scenarios(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("ALLOCATOR_SCENARIOS"))
	if os.Getenv("ALLOCATOR_SCENARIOS") == "" {
		return 20_000
	}
	require.NoError(t, err)
	return n
}

// TestSameAsUpstream compares with the structured allocator on random scenarios:
// the same devices for the same requests, the same config and node selectors, an
// error where it has one.
func TestSameAsUpstream(t *testing.T) {
	total := scenarios(t)
	var mutex sync.Mutex
	counts := map[outcome]int{}
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for worker := range workers {
		wg.Go(func() {
			celCache := cel.NewCache(100, cel.Features{EnableListTypeAttributes: true})
			for seed := worker; seed < total && !t.Failed(); seed += workers {
				g := generator{Rand: rand.New(rand.NewSource(int64(seed)))}
				s := g.scenario()
				diff, result := s.compare(t.Context(), celCache)
				if diff != "" {
					t.Errorf("seed %d: %s\n%s", seed, diff, s)
				}
				mutex.Lock()
				counts[result]++
				mutex.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("%d scenarios: %d allocated, %d impossible, %d errors", total, counts[allocated], counts[impossible], counts[failed])
	for result, name := range map[outcome]string{allocated: "solutions", impossible: "impossible ones", failed: "errors"} {
		require.Greater(t, counts[result], total/50, "the generator makes too few scenarios with %s", name)
	}
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
