package compat

import (
	"testing"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// shared is the scheduler that most tests use. The first test that needs it starts it.
var shared harness.SharedScheduler

// newSpace makes a space with nodes without devices, for pods of the shared scheduler.
func newSpace(t *testing.T, name string, nodes int) *harness.Space {
	t.Helper()
	onlyStructured(t)
	profile, log := sharedScheduler(t)
	s := cluster.NewSpace(t, name, profile, nodes)
	s.Log = log
	return s
}

// onlyStructured skips tests of what the oldest releases do not have.
func onlyStructured(t *testing.T) {
	t.Helper()
	if tested.onlyClassic {
		t.Skip("in this release, only controllers of drivers can allocate claims; the tests of that have other objects")
	}
}

// sharedScheduler returns the profile and the log of the shared scheduler.
func sharedScheduler(t *testing.T) (profile, log string) {
	t.Helper()
	scheduler := shared.Get(t, cluster, harness.SchedulerOptions{Name: "shared", LeaderElection: true})
	return scheduler.Profile, scheduler.LogFile()
}
