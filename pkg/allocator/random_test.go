package allocator_test

import (
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

// scenarioCount returns the number of random scenarios of a test: usual, or a part of it with -short or the race detector.
func scenarioCount(usual int) int {
	switch {
	case testing.Short():
		return max(usual/10, min(usual/4, 400)) // Each kind of result must occur a few times.
	case raceDetector:
		return usual / 4
	}
	return usual
}

// differentialCount returns the number of scenarios to compare with upstream: the environment variable
// ALLOCATOR_SCENARIOS, or scenarioCount of 100,000. The race detector sees the same goroutines in each, and takes ten times as long.
func differentialCount(t *testing.T) int {
	text := os.Getenv("ALLOCATOR_SCENARIOS")
	switch {
	case text == "" && raceDetector:
		return scenarioCount(25_000)
	case text == "":
		return scenarioCount(100_000)
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, "ALLOCATOR_SCENARIOS")
	return n
}

// outcome is the kind of result of a scenario.
type outcome int

const (
	allocated outcome = iota
	impossible
	failed
	gaveUp  // our search ran out of steps
	skipped // upstream's search took too long
	leftOut // the oracle does not know
)

func (o outcome) String() string {
	return [...]string{"allocated", "impossible", "failed", "given up", "skipped", "left out"}[o]
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

// tally counts scenarios by their outcome.
type tally struct {
	mutex  sync.Mutex
	counts map[outcome]int
}

func (c *tally) add(result outcome) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.counts == nil {
		c.counts = make(map[outcome]int)
	}
	c.counts[result]++
}

// worlds are random scenarios of a kind.
type worlds struct {
	fromSeed func(int64) scenario
	// One in this many may be too hard, for us or for upstream.
	tooHard int
}

var (
	smallWorlds = worlds{fromSeed: fromSeed, tooHard: 2000}
	// Upstream's search is exhaustive: too few devices for many requests take it minutes.
	largeWorlds = worlds{fromSeed: largeFromSeed, tooHard: 4}
)

// forScenarios calls check for random scenarios on all processors until one fails.
// Tests with different first seeds see different scenarios.
func forScenarios(t *testing.T, firstSeed, total int, check func(t *testing.T, s scenario, celCache *cel.Cache) outcome) {
	smallWorlds.each(t, firstSeed, total, check)
}

func (w worlds) each(t *testing.T, firstSeed, total int, check func(t *testing.T, s scenario, celCache *cel.Cache) outcome) {
	var counts tally
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for worker := range workers {
		wg.Go(func() {
			celCache := newCache()
			for i := worker; i < total && !t.Failed(); i += workers {
				seed := int64(firstSeed + i)
				result := check(t, w.fromSeed(seed), celCache)
				if t.Failed() {
					t.Logf("a worker stopped at seed %d", seed)
				}
				counts.add(result)
				if w.tooHard > 100 && (result == gaveUp || result == skipped) {
					t.Logf("the scenario of seed %d was %v", seed, result)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d scenarios: %v", total, counts.counts)
	if t.Failed() {
		return
	}
	for _, result := range []outcome{allocated, impossible, failed} {
		require.Greater(t, counts.counts[result], total/20, "the generator makes too few scenarios that are %s", result)
	}
	for _, result := range []outcome{gaveUp, skipped} {
		require.LessOrEqual(t, counts.counts[result], 1+total/w.tooHard, "too many scenarios are %s", result)
	}
	require.LessOrEqual(t, counts.counts[leftOut], total/25, "too many scenarios are %s", leftOut)
}

func newCache() *cel.Cache {
	return cel.NewCache(100, cel.Features{EnableListTypeAttributes: true, EnableConsumableCapacity: true})
}
