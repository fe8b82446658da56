package quartermaster

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

var errLost = errors.New("connection lost")

// bound makes a pod that has gone through PreBind.
func (f *fixture) bound(pod *v1.Pod, node string) *attempt {
	a := f.mustBegin(pod).filter()
	require.NoError(f.t, a.reserve(node).AsError())
	require.NoError(f.t, a.preBind(node).AsError())
	return a
}

// TestUnreserveAfterPreBind: a later plugin or the binding itself failed.
func TestUnreserveAfterPreBind(t *testing.T) {
	t.Parallel()
	shared := with(gpus("shared", 1).Allocated("n1", "gpu-0"), reservedFor("other"))
	inCluster(t, plus(gpuNodes(2, "n1"), shared, gpus("own", 1).Obj()), func(t *testing.T, f *fixture) {
		a := f.bound(newPod("p", uses("shared"), uses("own")), "n1")
		f.writes = nil
		for range 2 { // It is idempotent.
			a.unreserve("n1")
			require.Equal(t, []string{"other"}, consumerNames(f.claim("shared")))
			require.Empty(t, consumerNames(f.claim("own")))
			require.Empty(t, deviceNames(f.claim("own")), "nobody uses it")
			require.Equal(t, []string{"n1/gpu-0"}, deviceNames(f.claim("shared")), "was there before")
		}
		require.Equal(t, []string{"update/status own", "update own", "update/status shared"}, f.writes, "in reverse order, once")

		f.settle()
		f.bound(a.pod, "n1")
		require.Equal(t, []string{"p"}, consumerNames(f.claim("own")))
	})
}

// TestNomineesAreTriedOnceAVictimIsGone: kube-scheduler has forgotten the victim before, and tried its preemptors then if they were not kept out of the queue.
func TestNomineesAreTriedOnceAVictimIsGone(t *testing.T) {
	t.Parallel()
	victim := newPod("p", uses("own"))
	inCluster(t, plus(gpuNodes(1, "n1"), gpus("own", 1).Obj(), victim), func(t *testing.T, f *fixture) {
		info := func(name string, priority int32) fwk.PodInfo {
			pod, err := framework.NewPodInfo(newPod(name, func(pod *v1.Pod) { pod.Spec.Priority = &priority }))
			require.NoError(t, err)
			return pod
		}
		f.nominator.nominees = map[string][]fwk.PodInfo{"n1": {info("preemptor", 10), info("equal", 0)}, "n2": {info("elsewhere", 10)}}
		f.bound(victim, "n1").unreserve("n1")
		f.settle()
		f.forget()
		f.remove(victim)
		f.settle()
		require.Equal(t, []string{builder.Namespace + "/preemptor"}, f.names())
	})
}

// TestUnreserveAfterPartialPreBind: the first claim was written, the second failed.
func TestUnreserveAfterPartialPreBind(t *testing.T) {
	t.Parallel()
	objects := plus(gpuNodes(3, "n1"), gpus("a", 1).Obj(), gpus("b", 1).Obj(), gpus("c", 1).Obj())
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		f.fail(fault{on: "update/status", claim: "b", err: forbidden()})
		result := f.schedule(newPod("p", uses("a"), uses("b"), uses("c")))
		require.Equal(t, "PreBind", result.phase)
		require.True(t, apierrors.IsForbidden(result.status.AsError()), "%v", result.status)
		require.Empty(t, deviceNames(f.claim("a")))
		require.Empty(t, consumerNames(f.claim("a")))
		require.Empty(t, deviceNames(f.claim("b")))
		require.Empty(t, f.claim("b").Finalizers, "no late write may give the devices to the claim")
		require.Zero(t, f.pl.state.Ledger.InFlightCount())
		require.NotContains(t, f.writes, "update c", "not touched")
		require.Empty(t, f.inUse("n1"))
	})
}

// TestUnreserveGoesOn: the server is down when the reservation must be undone. While the outcome of the write is
// unknown, no other claim may get the devices. After that, the pods that wait for them are woken.
func TestUnreserveGoesOn(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fault fault // of the write in PreBind; afterwards the server is away
		err   error
	}{
		"server away":              {fault: fault{on: "update/status", err: errLost}, err: write.ErrOutcomeUnknown},
		"refused, then away":       {fault: fault{on: "update/status", err: forbidden()}},
		"written, but answer lost": {fault: fault{on: "update/status", applied: true, err: errLost}, err: write.ErrOutcomeUnknown},
		"before the first write":   {fault: fault{on: "update", err: forbidden()}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			waiting := newPod("waiting", uses("b"))
			objects := plus(gpuNodes(1, "n1"), gpus("a", 1).Obj(), gpus("b", 1).Obj(), newPod("p", uses("a")), waiting)
			inCluster(t, objects, func(t *testing.T, f *fixture) {
				test.fault.before = f.down
				f.fail(test.fault)
				result := f.schedule(newPod("p", uses("a")))
				require.Equal(t, "PreBind", result.phase)
				if test.err != nil {
					require.ErrorIs(t, result.status.AsError(), test.err)
				}
				require.Equal(t, 1, f.pl.state.Ledger.InFlightCount(), "the fate of the write is not known")
				other := f.schedule(waiting)
				require.Contains(t, other.reasons["n1"], "held by another claim")
				again := f.schedule(result.pod(f))
				require.Equal(t, "PreFilter", again.phase)
				require.Equal(t, fwk.UnschedulableAndUnresolvable, again.status.Code())

				f.recoverNow()
				time.Sleep(2 * commit.UndoInterval)
				f.settle()
				require.Zero(t, f.pl.state.Ledger.InFlightCount())
				require.Empty(t, consumerNames(f.claim("a")))
				require.Nil(t, f.claim("a").Status.Allocation)
				require.Contains(t, f.names(), "default/p", "nothing else wakes the pod")
				require.Contains(t, f.names(), "default/waiting", "nothing else tells it that the device is free")
				require.Empty(t, f.schedule(waiting).phase)
			})
		})
	}
}

// pod is the one that the attempts of TestUnreserveGoesOn are for.
func (o outcome) pod(f *fixture) *v1.Pod { return f.server.pod("p") }

// TestUnreserveDoesNotUndoTheNextAttempt: the server is away when the reservation of
// an allocated claim must be undone. If the pod were scheduled again before that is
// done, then it would lose the new reservation and run without.
func TestUnreserveDoesNotUndoTheNextAttempt(t *testing.T) {
	t.Parallel()
	pod := newPod("p", uses("c"))
	objects := plus(gpuNodes(1, "n1"), gpus("c", 1).Allocated("n1", "gpu-0"), pod)
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		f.fail(fault{on: "update/status", applied: true, err: errLost, before: f.down})
		require.Equal(t, "PreBind", f.schedule(pod).phase)
		f.recoverNow()
		f.forget()

		// The scheduler tries again at once, and later when the pod is activated.
		early := f.schedule(pod)
		require.Equal(t, "PreFilter", early.phase)
		require.Equal(t, fwk.UnschedulableAndUnresolvable, early.status.Code())
		require.Contains(t, early.text(), "could not be undone yet")
		time.Sleep(2 * commit.UndoInterval)
		f.settle()
		require.Contains(t, f.names(), "default/p", "is tried again")
		require.Empty(t, f.schedule(pod).phase)
		require.Equal(t, []string{"p"}, consumerNames(f.claim("c")), "the pod is bound")
	})
}

// TestUnreserveLearnsWhatWasWritten: a write whose answer PreBind did not get may have given the devices to the claim.
// When the in-flight entry ends, the result must be known, even if the informer has not delivered the claim yet.
func TestUnreserveLearnsWhatWasWritten(t *testing.T) {
	t.Parallel()
	beforeEvents(t, func(t *testing.T, f *fixture) {
		for _, obj := range plus(gpuNodes(1, "n1"), gpus("a", 1).Obj()) {
			f.create(obj)
		}
		f.arrive(builder.Node("n1"), f.objects("resourceslices", "n1"), f.objects("deviceclasses", "gpu"), f.claim("a"))
		f.pl.state.RefreshSlice("n1")
		f.fail(fault{on: "update/status", applied: true, err: errLost})
		for range 6 {
			f.fail(fault{on: "get", err: errLost})
		}
		require.Equal(t, "PreBind", f.schedule(newPod("p", uses("a"))).phase)
		require.Empty(t, f.faults, "the faults did not happen")
		require.Zero(t, f.pl.state.Ledger.InFlightCount())
		require.Empty(t, f.inUse("n1"), "released")
		known, err := f.pl.handle.SharedDRAManager().ResourceClaims().Get("default", "a")
		require.NoError(t, err)
		require.Equal(t, f.claim("a"), known)
	})
}

func TestUnreserveOfClaimThatIsGone(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(gpuNodes(1, "n1"), gpus("c", 1).Obj()), func(t *testing.T, f *fixture) {
		f.fail(fault{on: "update/status", err: errLost, before: func() { f.remove(gpus("c", 1).Obj()) }})
		result := f.schedule(newPod("p", uses("c")))
		require.Equal(t, "PreBind", result.phase)
		require.ErrorIs(t, result.status.AsError(), write.ErrDeleted)
		f.settle()
		require.Empty(t, f.inUse("n1"))
	})
}

// TestUnreserveOfSeveralClaimsGoesOn: the pod has to wait for the last of them.
func TestUnreserveOfSeveralClaimsGoesOn(t *testing.T) {
	t.Parallel()
	pod := newPod("p", uses("a"), uses("b"))
	objects := plus(gpuNodes(2, "n1"), gpus("a", 1).Obj(), gpus("b", 1).Obj(), pod)
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		f.fail(fault{on: "update/status", claim: "b", err: errLost, before: f.down})
		require.Equal(t, "PreBind", f.schedule(pod).phase)
		f.recoverNow()
		f.fail(fault{on: "get", claim: "a", err: forbidden()}, fault{on: "update/status", claim: "a", err: forbidden()})
		for f.pl.commits.IsReleasing(pod.UID) {
			require.Equal(t, "PreFilter", f.schedule(pod).phase)
			time.Sleep(commit.UndoInterval)
			f.settle()
		}
		require.Empty(t, consumerNames(f.claim("a")))
		require.Empty(t, f.schedule(pod).phase)
		require.Equal(t, []string{"p"}, consumerNames(f.claim("a")))
	})
}

func TestUnreserveWithoutCycle(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(gpuNodes(1, "n1"), gpus("c", 1).Obj()), func(t *testing.T, f *fixture) {
		a := f.mustBegin(newPod("p", uses("c"))).filter()
		a.unreserve("n1") // Another plugin's Reserve failed before ours ran.
		require.Empty(t, f.writes)
		require.Empty(t, f.inUse("n1"))
	})
}
