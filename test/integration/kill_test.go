package integration

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// The scheduler gets killed again and again while it is busy with a burst of pods.
func TestKilledInTheMiddleOfABurst(t *testing.T) {
	harness.Long(t, "the scheduler is killed again and again")
	t.Parallel()
	const (
		waves, podsPerWave = 5, 30
		nodes              = 5
		// boundBeforeKill of a wave's pods are on nodes when the scheduler dies. The
		// limit of requests per second keeps it from being done with all by then.
		boundBeforeKill = 5
		requestsPerSec  = 40
	)
	s := newOwnSpace(t, "killed", nodes)
	for node := range nodes {
		s.Devices(node, numbered(waves*podsPerWave/nodes)...)
	}
	s.Create(builder.Claim("one", s.Want(1)).Template())
	scheduler := s.StartScheduler(harness.SchedulerOptions{QPS: requestsPerSec})

	for wave := range waves {
		before := s.Bound()
		s.CreatePods(fmt.Sprintf("wave-%d", wave), podsPerWave)
		s.Eventually("bind the first pods of a wave", func(context.Context) error {
			if bound := s.Bound(); bound < before+boundBeforeKill {
				return fmt.Errorf("%d pods are bound, %d of them from before", bound, before)
			}
			return nil
		})
		require.NoError(t, scheduler.Kill())
		all := (wave + 1) * podsPerWave
		left := all - s.Bound()
		t.Logf("killed with %d of %d pods not bound, %d claims allocated for them", left, all, s.Allocated()-s.Bound())
		require.Positive(t, left, "the burst was over before the scheduler was killed")
		require.NoError(t, scheduler.Restart(t.Context()))
	}
	// As many devices as pods: if anything had leaked, one pod would be left over.
	s.RunningAndWaiting(waves*podsPerWave, 0)
	require.Zero(t, s.NothingLeaked())
}
