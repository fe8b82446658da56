package skew

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/quartermaster-dra/quartermaster/internal/playground/catalogue"
	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/controlplane"
	"github.com/quartermaster-dra/quartermaster/test/harness"
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

// TestOlderServer: all scenarios of the demo on a server of the release before.
func TestOlderServer(t *testing.T) {
	c := startCluster(t, "older-server", controlplane.Options{EmulatedVersion: older})
	info, err := c.Client.Discovery().ServerVersion()
	require.NoError(t, err)
	require.Equal(t, older, info.EmulationMajor+"."+info.EmulationMinor)
	_, err = c.Client.Discovery().ServerResourcesForGroupVersion("resource.k8s.io/v1alpha3")
	require.True(t, err == nil || apierrors.IsNotFound(err), err)
	var scenarios harness.Catalogue
	scenarios.Run(t, c, startScheduler(t, c), catalogue.WithDefaultGates())
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
		found = string(sample.Metric["emulation_version"])
	}
	require.True(t, strings.HasPrefix(found, older), "the scheduler emulates %q", found)
	scenarios.Run(t, c, scheduler, catalogue.WithDefaultGates())
}
