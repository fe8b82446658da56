package integration

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// shared is the scheduler that most tests use, exactly as manifests/secondary
// configures it. The first test that needs it starts it.
var shared harness.SharedScheduler

// sharedScheduler returns the running shared scheduler.
func sharedScheduler(t *testing.T) *harness.Scheduler {
	t.Helper()
	return shared.Get(t, cluster, harness.SchedulerOptions{Name: "shared", LeaderElection: true})
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
