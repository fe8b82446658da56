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
	shared.Lock()
	defer shared.Unlock()
	if shared.scheduler == nil && shared.err == nil {
		shared.scheduler, shared.err = cluster.StartScheduler(context.Background(),
			harness.SchedulerOptions{Name: "shared", LeaderElection: true})
	}
	require.NoError(t, shared.err)
	require.NoError(t, shared.scheduler.Err(), "the shared scheduler has to keep running")
	s := cluster.NewSpace(t, name, shared.scheduler.Profile, nodes)
	s.Log = shared.scheduler.LogFile()
	return s
}

func stopSharedScheduler() error {
	shared.Lock()
	defer shared.Unlock()
	if shared.scheduler == nil {
		return nil
	}
	return errors.Join(shared.scheduler.Err(), shared.scheduler.Stop())
}
