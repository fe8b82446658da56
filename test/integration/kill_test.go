package integration

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/pkg/playground/workload"
)

// The scheduler gets killed again and again while it is busy with a burst of pods.
func TestKilledInTheMiddleOfABurst(t *testing.T) {
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
		s.devices(node, numbered(waves*podsPerWave/nodes)...)
	}
	s.create(workload.Template("one", workload.Request("gpu", s.want(1))))
	scheduler := s.startOwnScheduler(requestsPerSec)

	for wave := range waves {
		before := s.bound()
		s.createPods(fmt.Sprintf("wave-%d", wave), podsPerWave)
		s.eventually("bind the first pods of a wave", func(context.Context) error {
			if bound := s.bound(); bound < before+boundBeforeKill {
				return fmt.Errorf("%d pods are bound, %d of them from before", bound, before)
			}
			return nil
		})
		require.NoError(t, scheduler.process.Kill())
		all := (wave + 1) * podsPerWave
		left := all - s.bound()
		t.Logf("killed with %d of %d pods not bound, %d claims allocated for them", left, all, s.allocated()-s.bound())
		require.Positive(t, left, "the burst was over before the scheduler was killed")
		require.NoError(t, scheduler.process.Restart(t.Context()))
	}
	// As many devices as pods: if anything had leaked, one pod would be left over.
	s.runningAndWaiting(waves*podsPerWave, 0)
}

// bound counts the pods that are on nodes.
func (s *space) bound() int {
	bound := 0
	for _, pod := range s.pods() {
		if pod.Spec.NodeName != "" {
			bound++
		}
	}
	return bound
}

// allocated counts the claims that have devices.
func (s *space) allocated() int {
	s.t.Helper()
	allocated := 0
	for _, pod := range s.pods() {
		claims, err := claimsOf(pod)
		if err != nil {
			continue // Not generated yet.
		}
		for _, claim := range claims {
			if claim.Status.Allocation != nil {
				allocated++
			}
		}
	}
	return allocated
}
