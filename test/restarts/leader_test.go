package restarts

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// leaderQPS slows the leader down, so that it is stopped long before it is through.
const leaderQPS = 100

// Of two replicas, the one that leads is stopped (SIGSTOP) twice in a burst, for longer than its
// lease. The other one takes over and binds pods. Then the stopped one goes on (SIGCONT), in the
// middle of whatever it did, as the leader that it is not any more. It has to end without having
// done any harm, and comes back as the one that waits.
func TestLeaderStopped(t *testing.T) {
	harness.Long(t, "leases as they are shipped expire twice")
	random := newRandom(t)
	const nodes, pods = 5, 100
	s := cluster.NewSpace(t, "stopped", "", nodes)
	s.Patience = harness.TakeoverPatience
	createTemplates(s)
	bursts := []burst{newBurst(s, "first", pods), newBurst(s, "second", pods)}
	left := newDevicesFor(s, nodes, bursts...)
	writes := follow(s)
	leader := startReplica(s, "a")
	s.EventuallyLeads(leader, nil)
	standby := startReplica(s, "b")
	s.EventuallyLeads(leader, standby)

	for i, b := range bursts {
		before, _ := writes.now()
		created := make(chan error, 1)
		go func() { created <- b.create(t.Context()) }()
		writes.mustReach(s, before+1+random.IntN(b.writes()/2))
		require.NoError(t, syscall.Kill(leader.PID(), syscall.SIGSTOP))
		at, _ := writes.now()
		bound := s.Bound()
		s.EventuallyLeads(standby, nil)
		s.Eventually("have pods bound by the new leader", func(context.Context) error {
			if now := s.Bound(); now <= bound {
				return fmt.Errorf("%d pods are bound, as before", now)
			}
			return nil
		})
		meanwhile := s.Bound() - bound
		require.NoError(t, syscall.Kill(leader.PID(), syscall.SIGCONT))
		s.EventuallyEnds(leader)
		require.NoError(t, leader.Restart(t.Context()))
		s.EventuallyLeads(standby, leader)
		t.Logf("the leader was stopped at write %d of %d; the other one had bound %d pods when it went on", at-before, b.writes(), meanwhile)
		require.NoError(t, <-created)
		runAll(s, (i+1)*pods)
		leader, standby = standby, leader
	}
	finish(s, left, bursts...)
}

// startReplica starts one of several schedulers for the same pods.
func startReplica(s *harness.Space, name string) *harness.Scheduler {
	s.T.Helper()
	return s.StartScheduler(harness.SchedulerOptions{
		Name:           s.Profile + "-" + name,
		LeaderElection: true,
		QPS:            leaderQPS,
		Change:         harness.ShortLease,
	})
}
