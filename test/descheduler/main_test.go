package descheduler

import (
	"os"
	"testing"

	"github.com/quartermaster-dra/quartermaster/test/controlplane"
	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/catalogue"
)

var (
	// cluster is shared by all tests.
	cluster *harness.Cluster
	// shared is the scheduler of most tests.
	shared harness.SharedScheduler
)

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{
		Name:     "descheduler",
		Binaries: []string{binary},
		// With the gates and versions of Kubernetes' own PodGroups.
		ControlPlane: controlplane.Options{FeatureGates: catalogue.FeatureGates(), RuntimeConfig: catalogue.APIs()},
	}, func(c *harness.Cluster) { cluster = c }, shared.Stop))
}
