package faults

import (
	"flag"
	"os"
	"testing"

	"github.com/quartermaster-dra/quartermaster/test/controlplane"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

var (
	seed   = flag.Uint64("seed", 1, "seed of everything random")
	scale  = flag.Int("scale", 1, "factor for the numbers of pods and devices")
	rounds = flag.Int("rounds", 1, "how often to run each burst")
)

// cluster is what all tests share.
var cluster *harness.Cluster

func TestMain(m *testing.M) {
	// Each test has a scheduler of its own, and each scheduler sees the objects of all
	// tests: more at a time would take longer.
	os.Exit(harness.Main(m, harness.Options{
		Name:     "faults",
		Parallel: 4,
		// Off by default since it is deprecated.
		ControlPlane: controlplane.Options{RuntimeConfig: map[string]bool{"resource.k8s.io/v1beta1": true}},
	}, func(c *harness.Cluster) { cluster = c }))
}
