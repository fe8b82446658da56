package soak

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// usage is what the schedulers of ours need.
type usage struct {
	space *harness.Space
	ours  []*harness.Scheduler
	start time.Time
	// seen are the metrics at each moment, by scheduler.
	seen [][]harness.Metrics
}

func newUsage(s *harness.Space, ours []*harness.Scheduler) *usage {
	u := &usage{space: s, ours: ours, start: time.Now(), seen: make([][]harness.Metrics, len(ours))}
	u.look(s.T.Context())
	return u
}

// watch looks once in every interval until the context is done.
func (u *usage) watch(ctx context.Context, interval time.Duration) {
	u.space.T.Helper()
	for {
		pause(ctx, interval)
		u.look(u.space.T.Context())
		u.space.T.Log(u)
		if ctx.Err() != nil {
			return
		}
	}
}

func (u *usage) look(ctx context.Context) {
	u.space.T.Helper()
	for i, scheduler := range u.ours {
		u.space.Eventually("read metrics", func(context.Context) error {
			metrics, err := scheduler.ReadMetrics(ctx)
			if err == nil {
				u.seen[i] = append(u.seen[i], metrics)
			}
			return err
		})
	}
}

// String is the last interval.
func (u *usage) String() string {
	const waits = "quartermaster_commit_wait_seconds"
	text := fmt.Sprintf("after %s:", time.Since(u.start).Round(time.Second))
	for i, scheduler := range u.ours {
		last := u.seen[i][len(u.seen[i])-1]
		before := u.seen[i][len(u.seen[i])-2]
		since := func(name string, labels ...string) harness.Histogram {
			return last.Histogram(name, labels...).Since(before.Histogram(name, labels...))
		}
		text += fmt.Sprintf("\n  %s: %.0f MB (live heap %.0f MB), %.0f goroutines; since the last time: scheduling %s; watch-catchup %s; post-write-settle %s; %.0f rollbacks",
			scheduler.Profile, last.Sum("process_resident_memory_bytes")/1e6, last.Sum("go_gc_heap_live_bytes")/1e6, last.Sum("go_goroutines"),
			since("scheduler_pod_scheduling_sli_duration_seconds"), since(waits, "stage", "watch-catchup"), since(waits, "stage", "post-write-settle"),
			last.Sum("quartermaster_rollbacks_total")-before.Sum("quartermaster_rollbacks_total"))
	}
	return text
}

// judge fails the test if something has grown a lot after a third of the time. The first
// moment is before the churn. What is in use of the heap depends on when garbage is collected:
// what was alive after the last collection counts.
func (u *usage) judge(t *testing.T) {
	t.Helper()
	for i, scheduler := range u.ours {
		early, last := u.seen[i][1+(len(u.seen[i])-1)/3], u.seen[i][len(u.seen[i])-1]
		for _, name := range []string{"go_goroutines", "process_resident_memory_bytes", "go_gc_heap_live_bytes"} {
			require.Positive(t, early.Sum(name), name)
			require.LessOrEqual(t, last.Sum(name), 2*early.Sum(name), "%s of %s has grown", name, scheduler.Profile)
		}
	}
}
