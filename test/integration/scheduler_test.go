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

// TestRefusesTwoPluginsThatAllocate: the scheduler does not start with the profile of the manifests when DynamicResources is not
// disabled in it, and says which profile that is and what to write. It does with DynamicResources in a profile of its own.
func TestRefusesTwoPluginsThatAllocate(t *testing.T) {
	t.Parallel()
	profiles := func(config map[string]any) []any { return config["profiles"].([]any) }
	_, err := cluster.StartScheduler(t.Context(), harness.SchedulerOptions{Name: "refused", Profile: "both-plugins", Change: func(config map[string]any) {
		plugins := profiles(config)[0].(map[string]any)["plugins"].(map[string]any)
		delete(plugins["multiPoint"].(map[string]any), "disabled")
	}})
	require.ErrorContains(t, err, "profile both-plugins: plugins Quartermaster and DynamicResources are both enabled")
	require.ErrorContains(t, err, "multiPoint: {disabled: [{name: DynamicResources}]}")

	beside, err := cluster.StartScheduler(t.Context(), harness.SchedulerOptions{Name: "beside", Profile: "one-plugin", Change: func(config map[string]any) {
		config["profiles"] = append(profiles(config), map[string]any{"schedulerName": "in-tree-plugin"})
	}})
	require.NoError(t, err)
	require.NoError(t, beside.Stop())
}
