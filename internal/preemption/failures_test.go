package preemption

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// inBetween is what somebody does before the next request gets to the server.
func inBetween(does func()) []func() error {
	return []func() error{func() error { does(); return nil }}
}

// times is an answer that is given so many times.
func times(n int, err error) []func() error {
	faults := make([]func() error, n)
	for i := range faults {
		faults[i] = func() error { return err }
	}
	return faults
}

// TestControllerWasFirst: the informer does not know yet.
func TestControllerWasFirst(t *testing.T) {
	t.Parallel()
	inWorld(t, held("a"), []*v1.Pod{victim("a")}, func(t *testing.T, w *world) {
		w.await("preemptor")
		w.write(deallocated)
		version := w.stored.ResourceVersion
		w.remove("a")
		require.Equal(t, version, w.stored.ResourceVersion, "nothing was written")
		w.requireReleased()
		w.pass(time.Hour)
		require.Equal(t, []string{"update status", "get"}, w.requests, "that is success")
	})
	inWorld(t, held("a"), []*v1.Pod{victim("a")}, func(t *testing.T, w *world) {
		w.await("preemptor")
		w.write(deallocated)
		w.tell()
		w.remove("a")
		require.Empty(t, w.requests, "the informer knows")
		require.True(t, w.Awaited("uid-c"), "it may be allocated again")
	})
}

// TestConflict: what is written in between is judged anew.
func TestConflict(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		consumers []string
		change    func(*resourceapi.ResourceClaim)
		released  bool
	}{
		"a driver reports":                    {consumers: []string{"a"}, change: func(claim *resourceapi.ResourceClaim) { claim.Status.Devices = nil }, released: true},
		"the controller removes one consumer": {consumers: []string{"b", "a"}, change: func(claim *resourceapi.ResourceClaim) { claim.Status.ReservedFor = claim.Status.ReservedFor[1:] }, released: true},
		"a new consumer":                      {consumers: []string{"a"}, change: reserve("late")},
		"a new allocation": {consumers: []string{"a"}, change: func(claim *resourceapi.ResourceClaim) {
			deallocated(claim)
			claim.Status = held("late").Status
			claim.Status.Allocation.Devices.Results[0].Device = "gpu-1"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, held(tc.consumers...), []*v1.Pod{victim("a"), victim("late")}, func(t *testing.T, w *world) {
				w.pods = append(w.pods, victim("b", failed)) // The informer leaves it out.
				w.await("preemptor")
				w.before["update status"] = inBetween(func() { w.write(tc.change) })
				w.remove("a")
				if tc.released {
					w.requireReleased()
					return
				}
				wanted := w.stored
				require.NotNil(t, wanted.Status.Allocation)
				w.tell()
				w.pass(time.Hour)
				require.Same(t, wanted, w.stored, "nothing was written")
				require.Empty(t, w.observed)
				require.Len(t, w.requests, 2+len(tc.consumers)-1, "not tried again while the informer shows a consumer")
				w.remove("late")
				w.requireReleased()
			})
		})
	}
}

// TestConflictWithoutNews: the informer does not hear of the new consumer for a while.
func TestConflictWithoutNews(t *testing.T) {
	t.Parallel()
	inWorld(t, held("a"), []*v1.Pod{victim("a"), victim("late")}, func(t *testing.T, w *world) {
		w.await("preemptor")
		w.write(reserve("late"))
		w.remove("a")
		w.pass(10 * longestPause)
		require.Less(t, len(w.requests), 100, "with a back-off")
		require.Len(t, w.stored.Status.ReservedFor, 2)
		w.remove("late")
		w.tell()
		w.requireReleased()
	})
}

// TestBeingDeleted: the garbage collector has deleted the claim of the victim; with its finalizer,
// it goes.
func TestBeingDeleted(t *testing.T) {
	t.Parallel()
	claim := held("a")
	deleted(claim)
	inWorld(t, claim, []*v1.Pod{victim("a", templated)}, func(t *testing.T, w *world) {
		w.await("preemptor")
		w.requireHeld()
		w.remove("a")
		require.Nil(t, w.stored)
		require.Equal(t, []string{"update status", "update"}, w.requests)
		require.Len(t, w.observed, 1)
		require.Nil(t, w.observed[0].Status.Allocation)
		w.requireEmpty()
	})
	// The controller is faster between the two writes.
	inWorld(t, claim.DeepCopy(), []*v1.Pod{victim("a", templated)}, func(t *testing.T, w *world) {
		w.await("preemptor")
		w.before["update"] = inBetween(func() { w.stored = nil })
		w.remove("a")
		require.Empty(t, w.observed)
		w.requireEmpty()
	})
	// Somebody else has a finalizer, too.
	claim = claim.DeepCopy()
	claim.Finalizers = append(claim.Finalizers, "example.com/theirs")
	inWorld(t, claim, []*v1.Pod{victim("a", templated)}, func(t *testing.T, w *world) {
		w.await("preemptor")
		w.remove("a")
		w.requireReleased()
		require.Equal(t, []string{"example.com/theirs"}, w.stored.Finalizers)
		w.stored = nil
		w.tell()
		w.requireEmpty()
	})
}

// TestClaimGoes: entries go with the claim.
func TestClaimGoes(t *testing.T) {
	t.Parallel()
	inWorld(t, held("a"), []*v1.Pod{victim("a")}, func(t *testing.T, w *world) {
		w.await("one")
		w.await("two")
		w.stored = nil
		w.tell()
		w.requireEmpty()
		require.Empty(t, w.requests)
	})
	inWorld(t, held("a"), []*v1.Pod{victim("a")}, func(t *testing.T, w *world) {
		w.await("preemptor")
		w.stored = nil
		w.remove("a") // The informer has not told of the claim.
		require.Empty(t, w.observed)
		require.Equal(t, 1, w.gone, "the ledger has to know: the informer may be late")
		w.requireEmpty()
	})
	inWorld(t, held("a"), []*v1.Pod{victim("a")}, func(t *testing.T, w *world) {
		w.await("preemptor")
		w.write(func(claim *resourceapi.ResourceClaim) { claim.UID = "another" })
		w.remove("a")
		require.NotNil(t, w.stored.Status.Allocation, "another claim of that name")
		require.Empty(t, w.observed)
		w.requireEmpty()
	})
}

// TestClaimIsRemembered: the scheduler's manager of claims hears later than others that the claim
// is gone.
func TestClaimIsRemembered(t *testing.T) {
	t.Parallel()
	inWorld(t, held("a"), []*v1.Pod{victim("a")}, func(t *testing.T, w *world) {
		w.await("preemptor")
		w.write(deallocated, deleted)
		w.remembered.Store(w.stored)
		w.stored = nil
		w.tell()
		require.True(t, w.Awaited("uid-c"))
		w.remembered.Store(nil)
		w.pass(longestPause)
		require.Empty(t, w.requests)
		w.requireEmpty()
	})
}

// TestFailures: what may go away by itself is tried again until it has gone away, and then at once
// when something is told.
func TestFailures(t *testing.T) {
	t.Parallel()
	broken := apierrors.NewInternalError(errors.New("etcd is away"))
	forbidden := apierrors.NewForbidden(resourceapi.Resource("resourceclaims"), "c", errors.New("not you"))
	for name, tc := range map[string]struct {
		on     string
		faults []func() error
		within time.Duration
	}{
		"500 once":                         {"update status", times(1, broken), time.Second},
		"500 for a while":                  {"update status", times(20, broken), 5 * time.Minute},
		"pods cannot be read for a while":  {"list pods", times(5, broken), 10 * time.Second},
		"not permitted for a while":        {"update status", times(5, forbidden), 10 * time.Second},
		"the claim cannot be read, either": {"get", times(20, broken), 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, held("a"), nil, func(t *testing.T, w *world) {
				w.pods = []*v1.Pod{victim("a", failed)} // The informer leaves it out.
				w.before[tc.on] = tc.faults
				if tc.on == "get" {
					w.before["update status"] = times(4, broken)
				}
				w.await("preemptor")
				require.NotNil(t, w.stored.Status.Allocation)
				w.pass(tc.within)
				w.requireReleased()
				require.Empty(t, w.before[tc.on])
				require.Zero(t, w.queue.NumRequeues("uid-c"))
			})
		})
	}
}

// TestAnswerLost: the write took effect, which is found out.
func TestAnswerLost(t *testing.T) {
	t.Parallel()
	inWorld(t, held("a"), []*v1.Pod{victim("a")}, func(t *testing.T, w *world) {
		w.await("preemptor")
		w.before["update status"] = []func() error{func() error {
			w.write(func(claim *resourceapi.ResourceClaim) { claim.Status = resourceapi.ResourceClaimStatus{} })
			return errors.New("connection reset")
		}}
		w.remove("a")
		w.pass(time.Second)
		w.requireReleased()
		require.Equal(t, []string{"update status", "get"}, w.requests)
	})
}

// TestAllocatedAgain: a claim that is awaited still may become somebody else's, who is evicted.
func TestAllocatedAgain(t *testing.T) {
	t.Parallel()
	inWorld(t, held("a"), []*v1.Pod{victim("a"), victim("b")}, func(t *testing.T, w *world) {
		w.await("preemptor")
		w.remove("a")
		w.requireReleased()
		w.write(func(claim *resourceapi.ResourceClaim) { claim.Status = held("b").Status })
		w.tell()
		require.NotNil(t, w.stored.Status.Allocation)
		w.remove("b")
		w.requireReleased()
	})
}
