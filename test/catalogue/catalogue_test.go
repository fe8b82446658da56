package catalogue

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/catalogue"
)

var (
	cluster   *harness.Cluster
	shared    harness.SharedScheduler
	scenarios harness.Catalogue
)

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{Name: "catalogue"}, func(c *harness.Cluster) { cluster = c }, shared.Stop))
}

// TestCatalogue runs all scenarios that need no gate that is off by default.
func TestCatalogue(t *testing.T) {
	// Before the scheduler looks for it.
	require.NoError(t, manifests.Apply(t.Context(), cluster.ControlPlane.AdminConfig(), manifests.PodGroups, manifests.ApplyOptions{}))
	scheduler := shared.Get(t, cluster, harness.SchedulerOptions{LeaderElection: true})
	scenarios.Run(t, cluster, scheduler, catalogue.WithDefaultGates())
}
