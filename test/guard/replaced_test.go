package guard

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// allocationsBetween is how many devices have to be allocated between two replacements.
const allocationsBetween = 3

// TestReplacedWithFail: guards are killed and paused while two schedulers that know nothing of each
// other allocate. Without a guard nothing is stored, so no device is ever had twice.
func TestReplacedWithFail(t *testing.T) {
	harness.Long(t, "guards are replaced in bursts")
	g := installGuards(t, admissionregistrationv1.Fail)
	g.start()
	g.start()
	g.decider()
	b := newBurst(t, "fail")
	held := harness.WatchHolders(b.Space)
	b.startStock("fail-1")
	b.startStock("fail-2")
	n := replacements(t)
	b.wavesWhile(func() {}, func() error { return g.replaceAgainAndAgain(n, held) })
	allocations, twice := held.Seen()
	t.Logf("%d replacements, %d waves of %d pods, %d allocations, %d while another claim had the device", n, b.waves, pods, allocations, len(twice))
	assert.Empty(t, twice)
	require.GreaterOrEqual(t, allocations, b.waves*pods, "the watch has to have seen them")
}

// TestReplacedWithIgnore: without a guard everything is stored. Our schedulers notice that at once and
// settle their conflicts among themselves; those with others they report.
func TestReplacedWithIgnore(t *testing.T) {
	harness.Long(t, "guards are replaced in bursts")
	g := installGuards(t, admissionregistrationv1.Ignore)
	g.start()
	g.start()
	g.decider()
	b := newBurst(t, "ignore")
	// Kube-scheduler takes a device for free as soon as one of two claims that had it is deallocated. A pod of its own gets another device by
	// chance then, in an attempt every 10 s.
	b.Patience = 10 * time.Minute
	held := harness.WatchHolders(b.Space)
	b.startOurs("ignore-ours-1")
	b.startOurs("ignore-ours-2")
	b.startStock("ignore-stock")
	conflicts, n := 0, replacements(t)
	before := b.conflictsByPool()
	b.wavesWhile(func() {
		shared := b.shared()
		b.onlyWithOthers(shared)
		b.reported(shared, before)
		before = b.conflictsByPool()
		conflicts += len(shared)
	}, func() error { return g.replaceAgainAndAgain(n, held) })
	t.Logf("%d replacements, %d waves of %d pods, %d devices that pods of ours and of others share, all of them reported", n, b.waves, pods, conflicts)
}

// replaceAgainAndAgain kills and pauses the guard that decides, in turn, each time as soon as some more
// devices were allocated: then others are about to be.
func (g *guards) replaceAgainAndAgain(times int, held *harness.Holders) error {
	for i := range times {
		before, _ := held.Seen()
		if err := harness.Poll(g.t.Context(), harness.Patience, func(context.Context) error {
			if now, _ := held.Seen(); now < before+allocationsBetween {
				return fmt.Errorf("%d devices were allocated since replacement %d", now-before, i)
			}
			return nil
		}); err != nil {
			return err
		}
		began, how := time.Now(), g.kill
		if i%2 == 1 {
			how = g.pause
		}
		if err := how(); err != nil {
			return fmt.Errorf("replacement %d: %w", i+1, err)
		}
		g.t.Logf("replacement %d took %s", i+1, time.Since(began).Round(time.Millisecond))
	}
	return nil
}

// onlyWithOthers fails if two pods of ours share a device.
func (b *burst) onlyWithOthers(shared map[string][]string) {
	b.T.Helper()
	for device, schedulers := range shared {
		ours := slices.DeleteFunc(slices.Clone(schedulers), func(name string) bool { return !strings.Contains(name, "-ours-") })
		assert.Less(b.T, len(ours), 2, "device %s is allocated to pods of %v", device, schedulers)
	}
}

// reported waits until a conflict was counted for each pool with devices that are shared.
func (b *burst) reported(shared map[string][]string, before map[string]float64) {
	b.T.Helper()
	b.Eventually("report all conflicts", func(context.Context) error {
		now := b.conflictsByPool()
		for device, schedulers := range shared {
			pool, _, _ := strings.Cut(device, "/")
			if now[pool] <= before[pool] {
				return fmt.Errorf("device %s is allocated to pods of %v, and no conflict was counted", device, schedulers)
			}
		}
		return nil
	})
}

// conflictsByPool is what schedulers of ours have counted so far.
func (b *burst) conflictsByPool() map[string]float64 {
	b.T.Helper()
	counted := make(map[string]float64)
	for _, scheduler := range b.ours {
		var metrics harness.Metrics
		b.Eventually("read metrics", func(ctx context.Context) (err error) {
			metrics, err = scheduler.ReadMetrics(ctx)
			return err
		})
		for sample := range metrics.Samples("quartermaster_device_conflicts_total", "driver", b.Driver) {
			counted[string(sample.Metric["pool"])] += float64(sample.Value)
		}
	}
	return counted
}
