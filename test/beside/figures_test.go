package beside

import (
	"context"
	"fmt"
	"time"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// figures are what a run has shown.
type figures struct {
	// doubled devices were allocated to more than one claim once all pods were bound.
	doubled int
	// bound is how long that took.
	bound time.Duration
	// The rest is what schedulers of ours say: claims that they have rolled back,
	// conflicts that they have reported, and how long pods have waited. A conflict that is
	// resolved is reported as well where that takes longer than conflictreport.Grace, as
	// it does on a busy machine.
	rollbacks, conflicts int
	// waits are how long pods have waited around their writes, by stage.
	waits map[string]harness.Histogram
}

func (f figures) String() string {
	return fmt.Sprintf("%d doubled devices, all bound within %.1f s; ours: %d rollbacks, %d conflicts reported; pre-write-settle: %s; watch-catchup: %s; post-write-settle: %s",
		f.doubled, f.bound.Seconds(), f.rollbacks, f.conflicts, f.waits["pre-write-settle"], f.waits["watch-catchup"], f.waits["post-write-settle"])
}

// add adds what has changed in the metrics of all schedulers of ours. Some may have been
// started in between.
func (f *figures) add(before, after []harness.Metrics) {
	before = append(before, make([]harness.Metrics, len(after)-len(before))...)
	f.waits = map[string]harness.Histogram{"pre-write-settle": {}, "watch-catchup": {}, "post-write-settle": {}}
	for i := range after {
		changed := func(name string) int { return int(after[i].Sum(name) - before[i].Sum(name)) }
		f.rollbacks += changed("quartermaster_rollbacks_total")
		f.conflicts += changed("quartermaster_device_conflicts_total")
		for stage, waits := range f.waits {
			const name = "quartermaster_commit_wait_seconds"
			waits.Add(after[i].Histogram(name, "stage", stage).Since(before[i].Histogram(name, "stage", stage)))
		}
	}
}

// readMetrics asks all schedulers of ours.
func (b *board) readMetrics() []harness.Metrics {
	b.T.Helper()
	all := make([]harness.Metrics, len(b.ours))
	for i, scheduler := range b.ours {
		b.Eventually("read metrics", func(ctx context.Context) (err error) {
			all[i], err = scheduler.ReadMetrics(ctx)
			return err
		})
	}
	return all
}
