package karpenter

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
	// shared is the scheduler of all tests.
	shared harness.SharedScheduler
)

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{
		Name:     "karpenter",
		Binaries: []string{binary},
		// With the gates and versions of Kubernetes' own PodGroups.
		ControlPlane: controlplane.Options{FeatureGates: catalogue.FeatureGates(), RuntimeConfig: catalogue.APIs()},
		Parallel:     20, // All scenarios at a time: they wait for Karpenter.
	}, func(c *harness.Cluster) { cluster = c }, shared.Stop))
}
