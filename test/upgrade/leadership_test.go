package upgrade

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// leaderQPS has a part of a burst last for longer than it takes to end a leader.
const leaderQPS = 40

// handover is a way in which a leader goes.
type handover struct {
	name string
	// away ends or stops it; back has it be the one that waits.
	away, back func(*space, *harness.Scheduler)
}

var (
	released = handover{"is stopped and gives the lease back", func(s *space, leader *harness.Scheduler) {
		require.NoError(s.T, leader.Stop())
	}, restart}
	killed = handover{"is killed", func(s *space, leader *harness.Scheduler) {
		require.NoError(s.T, leader.Kill())
	}, restart}
	// It goes on as the leader that it is not any more, in the middle of whatever it did.
	paused = handover{"is paused for longer than its lease", func(s *space, leader *harness.Scheduler) {
		require.NoError(s.T, syscall.Kill(leader.PID(), syscall.SIGSTOP))
	}, func(s *space, leader *harness.Scheduler) {
		require.NoError(s.T, syscall.Kill(leader.PID(), syscall.SIGCONT))
		s.EventuallyEnds(leader)
		restart(s, leader)
	}}
)

func restart(s *space, scheduler *harness.Scheduler) {
	require.NoError(s.T, scheduler.Restart(s.T.Context()))
}

// TestLeadershipToAndFro: the previous release and ours are two replicas. In a burst, leadership goes
// from one to the other and back, in each way in which it can. All pods run in the end with what they
// asked for, and nothing is left over.
func TestLeadershipToAndFro(t *testing.T) {
	needsPrevious(t, "scheduler")
	t.Parallel()
	// Of an even number of ways, each is gone twice, once by each release.
	handovers := []handover{released, killed, paused, released, killed, paused}
	s := newSpace(t, "replicas", len(handovers)+1)
	leader := s.startReplica(previous)
	s.EventuallyLeads(leader, nil)
	standby := s.startReplica(ours)
	s.EventuallyLeads(leader, standby)
	t.Logf("replicas: %s", areDifferent(t, leader, standby))

	s.createPart(0)
	interrupted := 0
	for i, handover := range handovers {
		s.bindAtLeast(i*partPods + partPods/2)
		s.createPart(i + 1)
		all := (i + 2) * partPods
		handover.away(s, leader)
		bound := s.Bound()
		t.Logf("%s %s with %d of %d pods bound and %d claims allocated", leader.LogFile(), handover.name, bound, all, s.Allocated())
		if bound < all {
			interrupted++
		}
		s.EventuallyLeads(standby, nil)
		s.bindAtLeast(min(bound+partPods/4, all))
		handover.back(s, leader)
		s.EventuallyLeads(standby, leader)
		leader, standby = standby, leader
	}
	require.Equal(t, len(handovers), interrupted, "a burst that is over shows nothing")
	s.runAll((len(handovers) + 1) * partPods)
	s.noNominations()
	require.Equal(t, s.left, s.NothingLeaked(), "the devices that the pods do not need have to be free")
	s.goesAway()
}

// startReplica starts one of several schedulers for the same pods.
func (s *space) startReplica(r release) *harness.Scheduler {
	s.T.Helper()
	o := r.options(s.T, s.Name)
	o.LeaderElection, o.QPS, o.Change = true, leaderQPS, harness.ShortLease
	return s.StartScheduler(o)
}
