package beside

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// TestOursAndStockStart: when both schedulers begin, all pods wait already, and nothing has
// been allocated from which one could learn of the other. In each run both are new.
func TestOursAndStockStart(t *testing.T) {
	harness.Long(t, "both schedulers start anew in each run")
	for i := range runs(t) {
		// Every second time, the unchanged one hardly gets ahead.
		qps := []int{500, 50}[i%2]
		name := fmt.Sprintf("start-%d-%d", qps, i+1)
		t.Run(name, func(t *testing.T) {
			b := newBoard(t, name)
			f := b.startWithPods("ours-"+name, qps)
			assert.Zero(t, f.doubled, "devices allocated to two claims: %s", f)
		})
	}
}

// startWithPods is run with schedulers that are started when all pods wait: one of ours, as
// it is shipped, and an unchanged kube-scheduler that may send so many requests a second.
func (b *board) startWithPods(name string, qps int) figures {
	b.T.Helper()
	b.profiles = []string{name, corev1.DefaultSchedulerName}
	return b.play(func() {
		var ours, stock *harness.Scheduler
		var errs [2]error
		var starting sync.WaitGroup
		starting.Go(func() { ours, errs[0] = cluster.StartScheduler(b.T.Context(), harness.SchedulerOptions{Profile: name}) })
		starting.Go(func() { stock, errs[1] = cluster.StartStockSchedulerWith(b.T.Context(), b.Name+"-stock", qps) })
		starting.Wait()
		for _, err := range errs {
			require.NoError(b.T, err)
		}
		b.stopAtEnd(ours.Process)
		b.stopAtEnd(stock.Process)
		b.ours, stockHasRun = append(b.ours, ours), true
	})
}
