package preemption

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// TestReservedForPodsThatTheInformerLacks: the server is asked before one is taken for gone.
func TestReservedForPodsThatTheInformerLacks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		known, live *v1.Pod
		released    bool
	}{
		"alive": {live: victim("a")},
		"alive, and the informer has its successor": {known: victim("a", another), live: victim("a")},
		"replaced":                          {live: victim("a", another)},
		"replaced, as the informer has it":  {known: victim("a", another), live: victim("a", another)},
		"has ended":                         {live: victim("a", failed), released: true},
		"has ended, and a container runs":   {live: victim("a", failed, running)},
		"being deleted, never bound":        {live: victim("a", unbound, terminating), released: true},
		"being deleted, on a node":          {live: victim("a", terminating)},
		"waits":                             {live: victim("a", unbound)},
		"gone":                              {},
		"gone, as the informer has another": {known: victim("a", another)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, held("a"), nil, func(t *testing.T, w *world) {
				if tc.known != nil {
					require.NoError(t, w.podStore.Add(tc.known))
				}
				if tc.live != nil {
					w.pods = []*v1.Pod{tc.live}
				}
				w.await("preemptor")
				if tc.released {
					w.requireReleased()
					return
				}
				w.requireHeld()
				// The informer hears of it, and of its end.
				require.NoError(t, w.podStore.Add(victim("a")))
				w.pass(time.Hour)
				w.requireHeld()
				require.LessOrEqual(t, len(w.requests), 10, "not asked for ever")
				w.remove("a")
				w.requireReleased()
			})
		})
	}
}

// TestPodThatNobodyTellsOf: the pod goes before the informer has heard of it.
func TestPodThatNobodyTellsOf(t *testing.T) {
	t.Parallel()
	inWorld(t, held("a"), nil, func(t *testing.T, w *world) {
		w.pods = []*v1.Pod{victim("a")}
		w.await("preemptor")
		w.requireHeld()
		w.vanish("a")
		w.pass(time.Hour)
		w.requireHeld()
		w.write(deallocated)
		w.tell()
		require.Empty(t, w.stored.Status.ReservedFor)
	})
}

// TestSurvivorIsNotAskedFor: as long as one consumer certainly uses the claim, the server is not
// asked about the others.
func TestSurvivorIsNotAskedFor(t *testing.T) {
	t.Parallel()
	inWorld(t, held("gone", "survivor"), []*v1.Pod{victim("survivor")}, func(t *testing.T, w *world) {
		w.await("preemptor")
		w.requireHeld()
		require.Empty(t, w.requests)
	})
}
