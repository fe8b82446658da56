package compat

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// A scheduler is killed while it is busy, and the next one goes on.
func TestKilledInMidFlight(t *testing.T) {
	t.Parallel()
	const (
		nodes, devicesPerNode = 2, 10
		waves, podsPerWave    = 2, nodes * devicesPerNode / 2
		requestsPerSecond     = 20
	)
	onlyStructured(t)
	s := cluster.NewSpace(t, "killed", "", nodes)
	for node := range nodes {
		s.Devices(node, harness.Numbered(devicesPerNode)...)
	}
	s.Create(builder.Claim("one", s.Want(1)).Template())
	scheduler := s.StartScheduler(harness.SchedulerOptions{QPS: requestsPerSecond})
	for wave := range waves {
		before := s.Bound()
		s.CreatePods(fmt.Sprintf("wave-%d", wave), podsPerWave)
		s.Eventually("bind the first pods of a wave", func(context.Context) error {
			if bound := s.Bound(); bound < before+2 {
				return fmt.Errorf("%d pods are bound, %d of them from before", bound, before)
			}
			return nil
		})
		require.NoError(t, scheduler.Kill())
		t.Logf("wave %d: the scheduler was killed with %d of %d pods bound", wave, s.Bound(), (wave+1)*podsPerWave)
		require.NoError(t, scheduler.Restart(t.Context()))
	}
	s.RunningAndWaiting(waves*podsPerWave, 0)
	require.Zero(t, s.NothingLeaked())
}

// Two instances share devices. Each has to recognise the other one as one that follows the
// same rules, by what the server records in the claims. This test runs alone: others make
// allocations that are nobody's.
func TestSideBySide(t *testing.T) {
	const nodes, devicesPerNode = 4, 5
	const pods = nodes * devicesPerNode
	onlyStructured(t)
	s := cluster.NewSpace(t, "side-by-side", "", nodes)
	for node := range nodes {
		s.Devices(node, harness.Numbered(devicesPerNode)...)
	}
	s.Create(builder.Claim("one", s.Want(1)).Template())
	var schedulers []*harness.Scheduler
	for i := range 2 {
		s.Profile = fmt.Sprintf("%s-%d", s.Name, i)
		schedulers = append(schedulers, s.StartScheduler(harness.SchedulerOptions{}))
	}
	for i := range pods {
		name := fmt.Sprintf("user-%02d", i)
		s.Profile = fmt.Sprintf("%s-%d", s.Name, i%2)
		s.Create(s.Pod(name, builder.FromTemplate("one")))
		if i < len(schedulers) {
			s.Running(name) // From what each allocates first, the other one learns that it looks.
		}
	}
	s.RunningAndWaiting(pods, 0)
	for i := range pods {
		claim := s.Claims(fmt.Sprintf("user-%02d", i))[0]
		writers := map[string]bool{}
		for _, entry := range s.LiveClaim(claim.Name).ManagedFields {
			if entry.Subresource == "status" {
				writers[entry.Manager] = true
				require.Equal(t, "resource.k8s.io/"+string(tested.claims), entry.APIVersion)
			}
		}
		require.Contains(t, writers, write.FieldManager, "claim %s", claim.Name)
	}
	for _, scheduler := range schedulers {
		metrics, err := scheduler.ReadMetrics(t.Context())
		require.NoError(t, err)
		waits := func(stage string) int {
			return metrics.Histogram("quartermaster_commit_wait_seconds", "stage", stage).Count()
		}
		require.Positive(t, waits("watch-catchup"), "every pod waits for its own write")
		require.Zero(t, waits("post-write-settle"), "the other one was taken for a non-participating scheduler")
	}
}
