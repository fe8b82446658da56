package driver

import (
	"maps"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/controlplane"
	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/catalogue"
)

var (
	// cluster is what all tests share, one after the other: the examples all ask for devices of the same class.
	cluster *harness.Cluster
	shared  harness.SharedScheduler
)

// apis are the versions that the examples are written in, and that are off by default.
func apis() map[string]bool {
	on := map[string]bool{"resource.k8s.io/v1beta2": true}
	maps.Copy(on, catalogue.APIs())
	return on
}

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{
		Name:         "driver",
		Binaries:     []string{pluginBinary, controllerBinary},
		ControlPlane: controlplane.Options{FeatureGates: catalogue.AllFeatureGates(), RuntimeConfig: apis()},
	}, func(c *harness.Cluster) { cluster = c }, shared.Stop))
}

// scheduler is ours in the default scheduler's place: the examples name none.
func scheduler(t *testing.T) *harness.Scheduler {
	t.Helper()
	require.NoError(t, manifests.Apply(t.Context(), cluster.ControlPlane.AdminConfig(), manifests.ReplaceDefault, manifests.ApplyOptions{RBACOnly: true}))
	return shared.Get(t, cluster, harness.SchedulerOptions{Overlay: manifests.ReplaceDefault, FeatureGates: catalogue.AllFeatureGates()})
}
