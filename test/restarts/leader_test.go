package restarts

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

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
	const nodes, pods, stops = 5, 200, 2
	s := cluster.NewSpace(t, "stopped", "", nodes)
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
	for stop := range stops {
		half := b.writes() / stops
		writes.mustReach(s, stop*half+1+random.IntN(half-3*writesAlone))
		require.NoError(t, syscall.Kill(leader.PID(), syscall.SIGSTOP))
		at, _ := writes.now()
		bound := s.Bound()
		eventuallyLeads(s, standby, nil)
		writes.mustReach(s, at+2*writesAlone)
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
		t.Logf("the leader was stopped at write %d of %d; the other one had bound %d pods when it went on", at, b.writes(), meanwhile)
		leader, standby = standby, leader
	}
	require.NoError(t, <-created)
	runAll(s, pods)
	t.Logf("%d stops, %d pods running after %s", stops, pods, rounded(begin))
	finish(s, left, b)
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

// Only the replica that leads reports conflicts. When it is killed, the other one does.
func TestOnlyTheLeaderReportsConflicts(t *testing.T) {
	s := cluster.NewSpace(t, "conflicts", "", 1)
	s.Devices(0, harness.Numbered(1)...)
	leader := startReplica(s, "a")
	eventuallyLeads(s, leader, nil)
	standby := startReplica(s, "b")
	eventuallyLeads(s, leader, standby)

	s.ClaimAndPod("first", s.Want(1))
	runAll(s, 1)
	s.Create(harness.One("second", s.Want(1)))
	s.Protect("second")
	s.UpdateClaimStatus("second", func(claim *resourceapi.ResourceClaim) {
		claim.Status.Allocation = s.Claims("first")[0].Status.Allocation.DeepCopy()
	})
	eventuallyReports(s, leader, 1)
	require.Zero(t, conflictsOf(s, standby), "reported by the standby replica")

	require.NoError(t, leader.Kill())
	eventuallyLeads(s, standby, nil)
	eventuallyReports(s, standby, 1)
}

// eventuallyReports waits until a replica has reported so many conflicts.
func eventuallyReports(s *harness.Space, replica *harness.Scheduler, want float64) {
	s.T.Helper()
	s.Eventually("report the conflict", func(context.Context) error {
		if got := conflictsOf(s, replica); got != want {
			return fmt.Errorf("%s has reported %v conflicts", replica.LogFile(), got)
		}
		return nil
	})
}

func conflictsOf(s *harness.Space, replica *harness.Scheduler) float64 {
	s.T.Helper()
	metrics, err := replica.ReadMetrics(s.T.Context())
	require.NoError(s.T, err)
	return metrics.Sum("quartermaster_device_conflicts_total")
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
