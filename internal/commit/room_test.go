package commit

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/limiter"
)

// leaveOne enters so many pods that there is room for just one more.
func (w *world) leaveOne() {
	for range limiter.Limit - 1 {
		w.State.Writes.Enter()
	}
}

// hasRoom reports whether the next pod would not have to wait.
func (w *world) hasRoom(t *testing.T) bool { return w.State.Writes.Wait(t.Context()) == 0 }

// TestRoom: a pod counts as long as its claims are being written, and no longer.
func TestRoom(t *testing.T) {
	t.Parallel()
	for name, alone := range map[string]bool{"a pod on its own": true, "a pod of a gang": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(t *testing.T, w *world) {
				w.leaveOne()
				attempt := w.reserve(t)
				if alone {
					attempt.AwaitRoom(t.Context())
				}
				require.True(t, w.hasRoom(t), "it may come to wait at Permit")
				writes := 0
				w.client.PrependReactor("update", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
					writes++
					require.Equal(t, !alone, w.hasRoom(t))
					return false, nil, nil
				})
				w.atDevices = func() { require.True(t, w.hasRoom(t), "that may take minutes") }
				require.NoError(t, attempt.Commit(t.Context(), "n", func(context.Context) error { return nil }))
				require.Positive(t, writes)
				require.True(t, w.hasRoom(t))
				attempt.Bound(t.Context())
				require.True(t, w.hasRoom(t))
			})
		})
	}
}

// TestRoomAfterFailure: a pod for which nothing is written any more does not count, however far it had got.
func TestRoomAfterFailure(t *testing.T) {
	t.Parallel()
	for name, commits := range map[string]bool{"before the first write": false, "at the last one": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(t *testing.T, w *world) {
				w.leaveOne()
				attempt := w.reserve(t)
				attempt.AwaitRoom(t.Context())
				attempt.Enter()
				attempt.Enter()
				require.False(t, w.hasRoom(t))
				if commits {
					w.storeOther(t)
					require.ErrorIs(t, attempt.Commit(t.Context(), "n", nil), ErrConflict)
					require.True(t, w.hasRoom(t))
				}
				attempt.Abort(t.Context())
				require.True(t, w.hasRoom(t))
				time.Sleep(deniedWithin)
			})
		})
	}
}

// TestNoRoom: a pod waits for a moment, and continues.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.leaveOne()
		w.State.Writes.Enter()
		attempt := w.reserve(t)
		begin := time.Now()
		attempt.AwaitRoom(t.Context())
		require.Equal(t, limiter.Patience, time.Since(begin))
		require.NoError(t, attempt.Commit(t.Context(), "n", func(context.Context) error { return nil }))
		attempt.Bound(t.Context())
	})
}
