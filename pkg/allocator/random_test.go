package allocator_test

import (
	"math/rand"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/dynamic-resource-allocation/cel"
)

// scenarioCount is how many random scenarios a test looks at: usual, less with the
// race detector, or what the environment variable ALLOCATOR_SCENARIOS says.
func scenarioCount(t *testing.T, usual int) int {
	if text := os.Getenv("ALLOCATOR_SCENARIOS"); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err, "ALLOCATOR_SCENARIOS")
		return n
	}
	if raceDetector {
		return usual / 4
	}
	return usual
}

// tally counts scenarios by what came out of them.
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

// forScenarios calls check for random scenarios on all processors until one fails.
// Tests with different first seeds see different scenarios.
func forScenarios(t *testing.T, firstSeed, total int, check func(t *testing.T, s scenario, celCache *cel.Cache) outcome) {
	var counts tally
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for worker := range workers {
		wg.Go(func() {
			celCache := newCache()
			for i := worker; i < total && !t.Failed(); i += workers {
				seed := int64(firstSeed + i)
				result := check(t, fromSeed(seed), celCache)
				if t.Failed() {
					t.Logf("a worker stopped at seed %d", seed)
				}
				counts.add(result)
				if result == gaveUp {
					t.Logf("the search gave up on seed %d", seed)
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
		require.Greater(t, counts.counts[result], total/50, "the generator makes too few scenarios that are %s", result)
	}
	require.LessOrEqual(t, counts.counts[gaveUp], total/1000, "too many searches give up on scenarios that can be searched to the end")
}

func newCache() *cel.Cache {
	return cel.NewCache(100, cel.Features{EnableListTypeAttributes: true, EnableConsumableCapacity: true})
}

func fromSeed(seed int64) scenario {
	g := generator{Rand: rand.New(rand.NewSource(seed))}
	s := g.scenario()
	s.seed = seed
	return s
}
