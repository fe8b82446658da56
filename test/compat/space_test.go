package compat

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// shared is the scheduler that most tests use. The first test that needs it starts it.
var shared struct {
	sync.Mutex
	scheduler *harness.Scheduler
	err       error
}

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
	shared.Lock()
	defer shared.Unlock()
	if shared.scheduler == nil && shared.err == nil {
		shared.scheduler, shared.err = cluster.StartScheduler(context.Background(),
			harness.SchedulerOptions{Name: "shared", LeaderElection: true})
	}
	require.NoError(t, shared.err)
	require.NoError(t, shared.scheduler.Err(), "the shared scheduler has to keep running")
	return shared.scheduler.Profile, shared.scheduler.LogFile()
}

func stopSharedScheduler() error {
	shared.Lock()
	defer shared.Unlock()
	if shared.scheduler == nil {
		return nil
	}
	return errors.Join(shared.scheduler.Err(), shared.scheduler.Stop())
}
