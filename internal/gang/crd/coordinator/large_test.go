package coordinator

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// TestLarge: the cost of a gang grows with the number of its pods, not with its square. The cost is the number of calls of
// Ready, and of attempts.
func TestLarge(t *testing.T) {
	const pods = 1000
	inWorld(t, pods-1, func(w *world) {
		var asked atomic.Int64
		w.ready = func(*v1.Pod) error { asked.Add(1); return nil }
		w.group("gang", pods)
		for i := range pods {
			w.pods("gang", i, 1)
			time.Sleep(2 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		require.Zero(w, w.bound("gang"))
		require.LessOrEqual(w, asked.Load(), int64(10*pods))
		require.LessOrEqual(w, w.allAttempts(), 5*pods)
		require.Contains(w, w.reason("gang"), "999 of 1000 pods fit")

		for range 60 { // Events happen all the time, and do not help.
			w.StirAll()
			time.Sleep(time.Second)
		}
		require.LessOrEqual(w, w.planned(), 70)
		before := w.allAttempts()
		w.has(pods)
		w.StirAll()
		w.requireBoundLater("gang", pods, 15*time.Second)
		require.LessOrEqual(w, w.allAttempts()-before, 2*pods)
		require.LessOrEqual(w, asked.Load(), int64(100*pods))
	})
}

func (w *world) allAttempts() (all int) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, tried := range w.tried {
		all += tried
	}
	return all
}
