package coordinator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// TestOnesBeyondAreWoken: pods that got no assignment, and were rejected while others were being scheduled, are scheduled on
// their own after that.
func TestOnesBeyondAreWoken(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		w.atPreBind = func(*v1.Pod) error { time.Sleep(2 * time.Second); return nil }
		w.group("gang", 4)
		w.pods("gang", 0, 7)
		time.Sleep(time.Second)
		w.mutex.Lock()
		w.free += 3
		w.mutex.Unlock()
		w.requireBoundLater("gang", 7, 5*time.Second)
	})
}

// TestOnesBeyondThatWaitedBefore: pods of a gang that were rejected before it was planned, and are more than it needs, are tried on their own when it
// runs. Nobody else wakes them for what is free then.
func TestOnesBeyondThatWaitedBefore(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		w.group("gang", 2)
		w.pods("gang", 0, 5)
		time.Sleep(time.Minute)
		require.Zero(w, w.bound("gang"))
		before := make(map[string]int)
		w.planning = func() {
			w.has(2)
			for _, pod := range w.podsOf("ns/gang") {
				before[pod.Name] = w.attempts(pod.Name)
			}
		}
		w.StirAll()
		w.requireBoundLater("gang", 2, 2*time.Minute)
		time.Sleep(30 * time.Second)
		waiting := w.waitingPods("ns/gang", all, "")
		require.Len(w, waiting, 3)
		for _, pod := range waiting {
			require.Greater(w, w.attempts(pod.Name), before[pod.Name], pod.Name)
			w.delete(pod.Name)
		}
	})
}
