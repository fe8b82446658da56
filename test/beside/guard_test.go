package beside

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/internal/playground/schedulerproc"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// pairings are the schedulers that start at once, with all pods waiting.
var pairings = map[string]func(b *board, qps int) []func() (*harness.Scheduler, error){
	"stock beside stock": func(b *board, qps int) []func() (*harness.Scheduler, error) {
		return []func() (*harness.Scheduler, error){b.newStock(qps), b.newOtherStock("other-"+b.Name, qps)}
	},
	"ours beside stock": func(b *board, qps int) []func() (*harness.Scheduler, error) {
		return []func() (*harness.Scheduler, error){b.newOurs("ours-" + b.Name), b.newStock(qps)}
	},
	"ours beside ours": func(b *board, _ int) []func() (*harness.Scheduler, error) {
		return []func() (*harness.Scheduler, error){b.newOurs("ours-1-" + b.Name), b.newOurs("ours-2-" + b.Name)}
	},
}

// TestGuarded: with a guard, no two schedulers hand a device out twice, whichever they are.
func TestGuarded(t *testing.T) {
	startGuard(t, "guard")
	limits := []int{500}
	if runs(t) > 1 {
		limits = append(limits, 50)
	}
	for name, pairing := range pairings {
		for _, qps := range limits {
			t.Run(fmt.Sprintf("%s, %d requests a second", name, qps), func(t *testing.T) {
				for i := range runs(t) {
					space := fmt.Sprintf("guarded-%s-%d-%d", strings.ReplaceAll(name, " ", "-"), qps, i+1)
					b := newBoard(t, space)
					f := b.startTogether(pairing(b, qps))
					assert.Zero(t, f.doubled, "devices allocated to two claims: %s", f)
					assert.Zero(t, f.conflicts, "pairs of claims that hold the same and do not resolve it: %s", f)
				}
			})
		}
	}
}

// startGuard has API servers ask a guard until the test ends, and allow nothing without it.
func startGuard(t *testing.T, name string, args ...string) *schedulerproc.Process {
	t.Helper()
	require.NoError(t, cluster.InstallGuard(t.Context(), admissionregistrationv1.Fail))
	process, err := cluster.StartGuard(t.Context(), name, args...)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, process.Err(), "the guard ended although nobody asked it to")
		require.NoError(t, cluster.RemoveGuard(context.WithoutCancel(t.Context())))
		require.NoError(t, process.Stop())
	})
	return process
}

// startTogether is run with schedulers that are started at once when all pods wait.
func (b *board) startTogether(start []func() (*harness.Scheduler, error)) figures {
	b.T.Helper()
	return b.play(func() {
		schedulers, errs := make([]*harness.Scheduler, len(start)), make([]error, len(start))
		var starting sync.WaitGroup
		for i := range start {
			starting.Go(func() { schedulers[i], errs[i] = start[i]() })
		}
		starting.Wait()
		require.NoError(b.T, errors.Join(errs...))
		for _, scheduler := range schedulers {
			b.stopAtEnd(scheduler.Process)
		}
	})
}

func (b *board) newOurs(profile string) func() (*harness.Scheduler, error) {
	b.profiles = append(b.profiles, profile)
	return func() (*harness.Scheduler, error) {
		ours, err := cluster.StartScheduler(b.T.Context(), harness.SchedulerOptions{Profile: profile})
		if err == nil {
			b.mutex.Lock()
			defer b.mutex.Unlock()
			b.ours = append(b.ours, ours)
		}
		return ours, err
	}
}

func (b *board) newStock(qps int) func() (*harness.Scheduler, error) {
	b.profiles = append(b.profiles, corev1.DefaultSchedulerName)
	stockHasRun = true
	return func() (*harness.Scheduler, error) {
		return cluster.StartStockSchedulerWith(b.T.Context(), b.Name+"-stock", qps)
	}
}

func (b *board) newOtherStock(profile string, qps int) func() (*harness.Scheduler, error) {
	b.profiles = append(b.profiles, profile)
	return func() (*harness.Scheduler, error) {
		return cluster.StartStockSchedulerFor(b.T.Context(), b.Name+"-other-stock", profile, qps)
	}
}
