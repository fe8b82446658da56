package beside

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/scheduler"
)

// stockHasRun is true once a non-participating scheduler has run.
var stockHasRun bool

func TestOursBesideOurs(t *testing.T) {
	b := newBoard(t, "ours-ours")
	b.startOurs("ours-1", asShipped)
	b.startOurs("ours-2", asShipped)
	b.introduce()
	for range runs(t) {
		f := b.run()
		assert.Zero(t, f.doubled, "devices allocated to two claims: %s", f)
		if !stockHasRun {
			assert.Zero(t, f.waits["post-write-settle"].Count(), "nobody has to wait for a non-participating scheduler: %s", f)
		}
		assert.GreaterOrEqual(t, f.waits["watch-catchup"].Count(), pods, "every pod has to wait for its own write")
	}
}

func TestOursBesideStock(t *testing.T) {
	harness.Long(t, "two schedulers contend in a burst")
	b := newBoard(t, "ours-stock")
	b.startOurs("ours", asShipped)
	b.startStock()
	for range runs(t) {
		f := b.run()
		assert.Zero(t, f.doubled, "devices allocated to two claims: %s", f)
	}
}

// TestStockBesideStock is the control: it asserts nothing about devices, because how
// often they are allocated twice is a matter of chance.
func TestStockBesideStock(t *testing.T) {
	figuresOnly(t)
	b := newBoard(t, "stock-stock")
	b.startStock()
	b.startOtherStock("other-stock")
	for range runs(t) {
		b.run()
	}
}

// startOurs adds a scheduler of ours with options.
func (b *board) startOurs(name string, o harness.SchedulerOptions) *harness.Scheduler {
	b.T.Helper()
	o.Profile = name
	scheduler := b.StartScheduler(o)
	b.ours = append(b.ours, scheduler)
	b.profiles = append(b.profiles, name)
	return scheduler
}

// startStock adds an unchanged kube-scheduler, for the pods of the default scheduler.
func (b *board) startStock() {
	b.T.Helper()
	stock, err := cluster.StartStockScheduler(b.T.Context(), b.Name+"-stock")
	require.NoError(b.T, err)
	b.stopAtEnd(stock.Process)
	b.profiles = append(b.profiles, corev1.DefaultSchedulerName)
	stockHasRun = true
}

// startOtherStock adds another one.
func (b *board) startOtherStock(name string) {
	b.T.Helper()
	b.profiles = append(b.profiles, name)
	b.stopAtEnd(b.startUnchanged(name, "profiles: [{schedulerName: "+name+"}]\n", scheduler.Options{LeaderElection: new(bool)}))
}

func (b *board) stopAtEnd(process *scheduler.Process) {
	b.T.Cleanup(func() {
		require.NoError(b.T, process.Err(), "the stock scheduler ended although nobody asked it to")
		require.NoError(b.T, process.Stop())
	})
}
