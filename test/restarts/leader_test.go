package restarts

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const (
	// A short lease: the other replica does not wait long for the end of a dead one's.
	leaseDuration, renewDeadline, retryPeriod = "3s", "2s", "500ms"
	// leaderQPS makes that the leader is killed long before it is through.
	leaderQPS = 100
	// writesAlone is how much the new leader has to do before the old one comes back.
	writesAlone = 20
)

// Of two replicas, the one that leads is killed twice in a burst. The other takes over,
// and the killed one comes back as the one that waits.
func TestLeaderKilled(t *testing.T) {
	random := newRandom(t)
	const nodes, pods, killed = 5, 200, 2
	s := cluster.NewSpace(t, "leader", "", nodes)
	s.Patience = harness.TakeoverPatience
	createTemplates(s)
	b := newBurst(s, "pod", pods)
	left := newDevicesFor(s, nodes, b)
	writes := follow(s)
	leader := startReplica(s, "a")
	eventuallyLeads(s, leader, nil)
	standby := startReplica(s, "b")
	eventuallyLeads(s, leader, standby)

	begin := time.Now()
	created := make(chan error, 1)
	go func() { created <- b.create(t.Context()) }()
	for kill := range killed {
		// A random point in the first, then in the second half, with something left.
		half := b.writes() / killed
		writes.mustReach(s, kill*half+1+random.IntN(half-2*writesAlone))
		require.NoError(t, leader.Kill())
		at, _ := writes.now()
		open := pods - s.Bound()
		alone := time.Now()
		eventuallyLeads(s, standby, nil)
		took := rounded(alone)
		writes.mustReach(s, at+writesAlone)
		require.NoError(t, leader.Restart(t.Context()))
		eventuallyLeads(s, standby, leader)
		t.Logf("the leader was killed at write %d of %d with %d pods not bound; the other one led after %s", at, b.writes(), open, took)
		leader, standby = standby, leader
	}
	require.NoError(t, <-created)
	runAll(s, pods)
	t.Logf("%d kills, %d pods running after %s", killed, pods, rounded(begin))
	finish(s, left, b)
}

// Of two replicas, the one that leads is stopped (SIGSTOP) twice in a burst, for longer than its
// lease. The other one takes over and binds pods. Then the stopped one goes on (SIGCONT), in the
// middle of whatever it did, as the leader that it is not any more. It has to end without having
// done any harm, and comes back as the one that waits.
func TestLeaderStopped(t *testing.T) {
	random := newRandom(t)
	const nodes, pods = 5, 100
	s := cluster.NewSpace(t, "stopped", "", nodes)
	s.Patience = harness.TakeoverPatience
	createTemplates(s)
	bursts := []burst{newBurst(s, "first", pods), newBurst(s, "second", pods)}
	left := newDevicesFor(s, nodes, bursts...)
	writes := follow(s)
	leader := startReplica(s, "a")
	eventuallyLeads(s, leader, nil)
	standby := startReplica(s, "b")
	eventuallyLeads(s, leader, standby)

	for i, b := range bursts {
		before, _ := writes.now()
		created := make(chan error, 1)
		go func() { created <- b.create(t.Context()) }()
		writes.mustReach(s, before+1+random.IntN(b.writes()/2))
		require.NoError(t, syscall.Kill(leader.PID(), syscall.SIGSTOP))
		at, _ := writes.now()
		bound := s.Bound()
		eventuallyLeads(s, standby, nil)
		s.Eventually("have pods bound by the new leader", func(context.Context) error {
			if now := s.Bound(); now <= bound {
				return fmt.Errorf("%d pods are bound, as before", now)
			}
			return nil
		})
		meanwhile := s.Bound() - bound
		require.NoError(t, syscall.Kill(leader.PID(), syscall.SIGCONT))
		eventuallyEnds(s, leader)
		require.NoError(t, leader.Restart(t.Context()))
		eventuallyLeads(s, standby, leader)
		t.Logf("the leader was stopped at write %d of %d; the other one had bound %d pods when it went on", at-before, b.writes(), meanwhile)
		require.NoError(t, <-created)
		runAll(s, (i+1)*pods)
		leader, standby = standby, leader
	}
	finish(s, left, bursts...)
}

// eventuallyEnds waits until a replica that has lost its lease has ended by itself.
func eventuallyEnds(s *harness.Space, replica *harness.Scheduler) {
	s.T.Helper()
	s.Eventually("see the old leader end", func(context.Context) error {
		select {
		case <-replica.Done():
			return nil
		default:
			return fmt.Errorf("%s goes on", replica.LogFile())
		}
	})
}

// startReplica starts one of several schedulers for the same pods.
func startReplica(s *harness.Space, name string) *harness.Scheduler {
	s.T.Helper()
	return s.StartScheduler(harness.SchedulerOptions{
		Name:           s.Profile + "-" + name,
		LeaderElection: true,
		QPS:            leaderQPS,
		Change: func(config map[string]any) {
			election := config["leaderElection"].(map[string]any)
			election["leaseDuration"], election["renewDeadline"], election["retryPeriod"] = leaseDuration, renewDeadline, retryPeriod
		},
	})
}

// eventuallyLeads waits until a replica leads. If another one is given, it must not.
func eventuallyLeads(s *harness.Space, leader, other *harness.Scheduler) {
	s.T.Helper()
	s.Eventually("have one leader", func(ctx context.Context) error {
		leading, err := leads(ctx, leader)
		if err != nil || !leading {
			return fmt.Errorf("%s leads: %t (%v)", leader.LogFile(), leading, err)
		}
		if other == nil {
			return nil
		}
		leading, err = leads(ctx, other)
		if err != nil {
			return err
		}
		require.False(s.T, leading, "%s and %s both say that they lead", leader.LogFile(), other.LogFile())
		return nil
	})
}

// leads asks a replica whether it leads.
func leads(ctx context.Context, replica *harness.Scheduler) (bool, error) {
	metrics, err := replica.ReadMetrics(ctx)
	if err != nil {
		return false, err
	}
	return metrics.Sum("leader_election_master_status") == 1, nil
}
