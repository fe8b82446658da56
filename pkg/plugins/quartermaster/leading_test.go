package quartermaster

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/internal/commit/conflicts"
)

const leaseDuration = 15 * time.Second

// alwaysGranted is a lock that grants each request.
type alwaysGranted struct{ resourcelock.Interface }

func (alwaysGranted) Identity() string                                                { return "us" }
func (alwaysGranted) Update(context.Context, resourcelock.LeaderElectionRecord) error { return nil }

// elected makes the plugin one of several replicas. lead gets or renews the lease.
func (f *fixture) elected() (lead func()) {
	lock := f.pl.state.Lease.Follow(alwaysGranted{}, leaseDuration)
	return func() {
		require.NoError(f.t, lock.Update(f.ctx, resourcelock.LeaderElectionRecord{HolderIdentity: "us"}))
	}
}

// TestStandbyDoesNotReport conflicts, nor evict. When it gets to lead, it does.
func TestStandbyDoesNotReport(t *testing.T) {
	counters, devices := partitions()
	for name, world := range map[string]func(*testing.T, func(*testing.T, *fixture)){
		"a device": func(t *testing.T, test func(*testing.T, *fixture)) {
			inCluster(t, plus(conflictWorld(), newPod("q", uses("conflicting"))), func(t *testing.T, f *fixture) { f.boundConflict(); test(t, f) })
		},
		"a counter": func(t *testing.T, test func(*testing.T, *fixture)) {
			inCluster(t, overdrawnWorld(counters, devices), func(t *testing.T, f *fixture) { f.overdraw(); test(t, f) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			world(t, func(t *testing.T, f *fixture) {
				f.pl.args.OnConflict = EvictOnConflict
				lead := f.elected()
				time.Sleep(time.Minute)
				f.settle()
				require.Empty(t, f.eventTexts())
				require.Empty(t, f.evictions())
				for range 4 {
					lead()
					time.Sleep(conflicts.Grace)
				}
				f.settle()
				require.Len(t, f.eventTexts(), 4)
				require.Equal(t, []string{"q"}, f.evictions())
			})
		})
	}
}

// TestLeaseEndsDuringAnAttempt: a process that was stopped goes on in the middle of an attempt.
// It neither writes nor binds.
func TestLeaseEndsDuringAnAttempt(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]string{"before the write": "", "after it": "update/status"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, conflictWorld(), func(t *testing.T, f *fixture) {
				lead := f.elected()
				lead()
				a := f.mustBegin(f.pod("p")).filter()
				require.Empty(t, a.reserve("n1").Message())
				stopped := func() { time.Sleep(leaseDuration) }
				if on == "" {
					stopped()
				} else {
					f.fail(fault{on: on, claim: "c", before: stopped})
				}
				status := a.preBind("n1")
				require.ErrorIs(t, status.AsError(), lease.ErrNotLeading)
				require.Equal(t, on != "", f.claim("c").Status.Allocation != nil, "it takes nothing back either")
				lead() // A process that has lost its lease ends. This one goes on, so that nothing is left in flight.
				time.Sleep(2 * commit.UndoInterval)
				f.settle()
			})
		})
	}
}

// TestNoAttemptWithoutLease: a process that was stopped begins no attempt until it leads again. Nothing is planned, written or
// evicted meanwhile, and nobody is woken.
func TestNoAttemptWithoutLease(t *testing.T) {
	t.Parallel()
	for name, pod := range map[string]string{"with devices": "p", "of a gang": "g-0", "without devices": "plain"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			world := plus(conflictWorld(), newPod("plain"), newPod("g-0", func(pod *v1.Pod) { pod.Labels = map[string]string{v1alpha1.PodGroupLabel: "g"} }))
			inCluster(t, world, func(t *testing.T, f *fixture) {
				lead := f.elected()
				lead()
				time.Sleep(leaseDuration)
				woken := f.activator.names()
				ended := make(chan *fwk.Status, 1)
				go func() {
					_, status := f.begin(f.pod(pod))
					ended <- status
				}()
				time.Sleep(time.Minute)
				require.Empty(t, ended)
				require.Empty(t, f.inFlight())
				require.Equal(t, woken, f.activator.names())
				lead()
				status := <-ended
				require.ErrorIs(t, status.AsError(), lease.ErrNotLeading)
				require.Equal(t, fwk.Error, status.Code(), "the scheduler tries the pod again")
				_, status = f.begin(f.pod(pod))
				require.NotErrorIs(t, status.AsError(), lease.ErrNotLeading)
			})
		})
	}
}

// TestLeaseEndsBeforeTheLastWrite: a process that was stopped does not write into the pod which claim it has: its successor may have bound the pod
// with another one, or with none.
func TestLeaseEndsBeforeTheLastWrite(t *testing.T) {
	t.Parallel()
	for _, ends := range []bool{false, true} {
		inCluster(t, plus(backedNodes(1, "n1"), gpuPod("p", "1")), func(t *testing.T, f *fixture) {
			lead := f.elected()
			lead()
			a := f.mustBegin(f.pod("p")).filter()
			require.Empty(t, a.reserve("n1").Message())
			if ends {
				f.fail(fault{on: "update/status", before: func() { time.Sleep(leaseDuration) }})
			}
			status := a.preBind("n1")
			f.settle()
			require.Equal(t, ends, status.Code() == fwk.Error, "%v", status)
			require.Equal(t, ends, f.pod("p").Status.ExtendedResourceClaimStatus == nil)
			lead()
			a.unreserve("n1")
			time.Sleep(2 * commit.UndoInterval)
			f.settle()
		})
	}
}
