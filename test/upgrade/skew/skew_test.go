package skew

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/controlplane"
	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/catalogue"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

// older is the minor release before that of our libraries.
const older = "1.36"

// startCluster starts a cluster until the test ends, which checks it.
func startCluster(t *testing.T, name string, o controlplane.Options) *harness.Cluster {
	t.Helper()
	c, err := harness.Start(t.Context(), harness.Options{Name: name, ControlPlane: o})
	require.NoError(t, err)
	t.Cleanup(func() {
		if !t.Failed() {
			require.NoError(t, c.Check(context.Background()))
		}
		require.NoError(t, c.Stop())
	})
	require.NoError(t, manifests.Apply(t.Context(), c.ControlPlane.AdminConfig(), manifests.PodGroups, manifests.ApplyOptions{}))
	return c
}

// startScheduler starts a scheduler as it is shipped until the test ends.
func startScheduler(t *testing.T, c *harness.Cluster, args ...string) *harness.Scheduler {
	t.Helper()
	scheduler, err := c.StartScheduler(t.Context(), harness.SchedulerOptions{LeaderElection: true, ExtraArgs: args})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, scheduler.Err(), "the scheduler ended although nobody asked it to")
		require.NoError(t, scheduler.Stop())
	})
	return scheduler
}

// TestOlderServer: the scenarios of the demo on a server of the release before.
func TestOlderServer(t *testing.T) {
	c := startCluster(t, "older-server", controlplane.Options{EmulatedVersion: older})
	info, err := c.Client.Discovery().ServerVersion()
	require.NoError(t, err)
	require.Equal(t, older, info.EmulationMajor+"."+info.EmulationMinor)
	served, err := c.Client.Discovery().ServerResourcesForGroupVersion(resourceapi.SchemeGroupVersion.String())
	require.NoError(t, err)
	for _, resource := range served.APIResources {
		require.NotEqual(t, "devicetaintrules", resource.Name, "scenarios with DeviceTaintRules can be run on %s", older)
	}
	var scenarios harness.Catalogue
	scenarios.Run(t, c, startScheduler(t, c), slices.DeleteFunc(catalogue.WithDefaultGates(), hasTaintRules))
}

// hasTaintRules: three scenarios create DeviceTaintRules of v1, which are there, and on by default, since our release.
func hasTaintRules(s scenario.Scenario) bool {
	return slices.Contains([]string{"taint-rule", "taint-eviction", "attach-fails"}, s.Name)
}

// TestOlderScheduler: the same with a server of our release and a scheduler with the gates of the one before.
func TestOlderScheduler(t *testing.T) {
	c := startCluster(t, "older-scheduler", controlplane.Options{})
	var scenarios harness.Catalogue
	scheduler := startScheduler(t, c, "--emulated-version="+older)
	metrics, err := scheduler.ReadMetrics(t.Context())
	require.NoError(t, err)
	found := ""
	for sample := range metrics.Samples("version_info") {
		found = string(sample.Metric["emulation"])
	}
	require.True(t, strings.HasPrefix(found, older), "the scheduler emulates %q", found)
	scenarios.Run(t, c, scheduler, slices.DeleteFunc(catalogue.WithDefaultGates(), hasTaintRules))
}
