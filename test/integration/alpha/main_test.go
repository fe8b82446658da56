package alpha

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/pkg/controlplane"
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
		func(c *harness.Cluster) { cluster = c }, stopSharedScheduler))
}

// withGates is the flag for a scheduler with all gates on, except for changes.
func withGates(changes map[string]bool) []string {
	all := maps.Clone(gates)
	maps.Copy(all, changes)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, fmt.Sprintf("%s=%t", name, all[name]))
	}
	return []string{"--feature-gates=" + strings.Join(list, ",")}
}

// shared is the scheduler with all gates on, which the first test that needs it starts.
var shared struct {
	sync.Mutex
	scheduler *harness.Scheduler
	err       error
}

func stopSharedScheduler() error {
	shared.Lock()
	defer shared.Unlock()
	if shared.scheduler == nil {
		return nil
	}
	return errors.Join(shared.scheduler.Err(), shared.scheduler.Stop())
}

// space is the part of the cluster that belongs to one test.
type space struct {
	*harness.Space
}

// newSpace makes a space for pods of the shared scheduler.
func newSpace(t *testing.T, name string, nodes int) *space {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.scheduler == nil && shared.err == nil {
		shared.scheduler, shared.err = cluster.StartScheduler(context.Background(),
			harness.SchedulerOptions{Name: "shared", ExtraArgs: withGates(nil)})
	}
	require.NoError(t, shared.err)
	require.NoError(t, shared.scheduler.Err(), "the shared scheduler has to keep running")
	s := &space{cluster.NewSpace(t, name, shared.scheduler.Profile, nodes)}
	s.Log = shared.scheduler.LogFile()
	return s
}

// newSpaceWithout makes a space with a scheduler of its own, with changed gates.
func newSpaceWithout(t *testing.T, name string, nodes int, changes map[string]bool) *space {
	t.Helper()
	s := &space{cluster.NewSpace(t, name, "", nodes)}
	s.StartScheduler(harness.SchedulerOptions{ExtraArgs: withGates(changes)})
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
