package harness

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// SharedScheduler is a scheduler that many tests use, which the first of them that needs
// it starts. The zero value is ready.
type SharedScheduler struct {
	mutex     sync.Mutex
	scheduler *Scheduler
	err       error
}

// Get returns the running scheduler. The options are for the first call, and the same in
// all of them.
func (s *SharedScheduler) Get(t *testing.T, cluster *Cluster, options SchedulerOptions) *Scheduler {
	t.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.scheduler == nil && s.err == nil {
		s.scheduler, s.err = cluster.StartScheduler(context.Background(), options)
	}
	require.NoError(t, s.err)
	require.NoError(t, s.scheduler.Err(), "the shared scheduler has to keep running")
	return s.scheduler
}

// Stop stops the scheduler, if there is one. It fails if that has ended by itself.
func (s *SharedScheduler) Stop() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.scheduler == nil {
		return nil
	}
	return errors.Join(s.scheduler.Err(), s.scheduler.Stop())
}
