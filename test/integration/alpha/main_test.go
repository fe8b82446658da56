package alpha

import (
	"maps"
	"os"
	"testing"

	"github.com/quartermaster-dra/quartermaster/test/controlplane"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// gates are those that are on in the API server and in the shared scheduler.
var gates = map[string]bool{
	"DRADerivedAttributes":         true,
	"DRADeviceCompatibilityGroups": true,
	"DRAFractionalCapacityRange":   true,
	"DRAListTypeAttributes":        true,
	"DRANodeAllocatableResources":  true,
	"DRAOptionalNodeOperations":    true,
}

// cluster is what all tests share.
var cluster *harness.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{Name: "alpha", ControlPlane: controlplane.Options{FeatureGates: gates}},
		func(c *harness.Cluster) { cluster = c }, shared.Stop))
}

// shared is the scheduler with all gates on, which the first test that needs it starts.
var shared harness.SharedScheduler

// space is the part of the cluster that belongs to one test.
type space struct {
	*harness.Space
}

// newSpace makes a space for pods of the shared scheduler.
func newSpace(t *testing.T, name string, nodes int) *space {
	t.Helper()
	scheduler := shared.Get(t, cluster, harness.SchedulerOptions{Name: "shared", FeatureGates: gates})
	s := &space{cluster.NewSpace(t, name, scheduler.Profile, nodes)}
	s.Log = scheduler.LogFile()
	return s
}

// newSpaceWithout makes a space with a scheduler of its own, with changed gates.
func newSpaceWithout(t *testing.T, name string, nodes int, changes map[string]bool) *space {
	t.Helper()
	s := &space{cluster.NewSpace(t, name, "", nodes)}
	changed := maps.Clone(gates)
	maps.Copy(changed, changes)
	s.StartScheduler(harness.SchedulerOptions{FeatureGates: changed})
	return s
}

// parallel runs subtests at the same time.
func parallel(t *testing.T, tests map[string]func(*testing.T)) {
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}
