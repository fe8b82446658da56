package integration

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// shared is the scheduler that most tests use, exactly as manifests/secondary
// configures it. The first test that needs it starts it.
var shared struct {
	sync.Mutex
	scheduler *harness.Scheduler
	err       error
}

// sharedScheduler returns the running shared scheduler.
func sharedScheduler(t *testing.T) *harness.Scheduler {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.scheduler == nil && shared.err == nil {
		shared.scheduler, shared.err = cluster.StartScheduler(context.Background(),
			harness.SchedulerOptions{Name: "shared", LeaderElection: true})
	}
	require.NoError(t, shared.err)
	require.NoError(t, shared.scheduler.Err(), "the shared scheduler has to keep running")
	return shared.scheduler
}

func stopSharedScheduler() error {
	shared.Lock()
	defer shared.Unlock()
	if shared.scheduler == nil {
		return nil
	}
	return errors.Join(shared.scheduler.Err(), shared.scheduler.Stop())
}

// startStockScheduler runs an unchanged kube-scheduler until the end of the test.
func startStockScheduler(t *testing.T, name string) *harness.Scheduler {
	t.Helper()
	stock, err := cluster.StartStockScheduler(t.Context(), name)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, stock.Err(), "the stock scheduler ended although nobody asked it to")
		require.NoError(t, stock.Stop())
	})
	return stock
}
