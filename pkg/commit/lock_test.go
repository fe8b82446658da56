package commit

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// atOnce makes the calls for one claim at the same time, so that each has to wait for
// others, in whatever order.
func atOnce(t *testing.T, w *Writer, uid types.UID, calls ...func()) {
	t.Helper()
	first, err := w.busy.lock(t.Context(), uid)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for _, call := range calls {
		wg.Go(call)
	}
	awaitUsers(t, &w.busy, uid, 1+len(calls))
	first.end(nil)
	wg.Wait()
	require.Empty(t, w.busy.locks, "unused locks take no memory")
}

// awaitUsers waits until so many hold the lock or wait for it.
func awaitUsers(t *testing.T, l *keyedLock, uid types.UID, users int) {
	t.Helper()
	require.Eventually(t, func() bool { return l.usersOf(uid) == users }, time.Minute, time.Millisecond)
}

func (l *keyedLock) usersOf(uid types.UID) int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.locks[uid] == nil {
		return 0
	}
	return l.locks[uid].users
}

func TestKeyedLock(t *testing.T) {
	t.Parallel()
	var l keyedLock
	ctx, cancel := context.WithCancelCause(context.Background())

	turnA, err := l.lock(ctx, "a")
	require.NoError(t, err)
	turnB, err := l.lock(ctx, "b")
	require.NoError(t, err, "claims do not wait for other claims")
	turnB.end(nil)

	stop := errors.New("stop")
	cancel(stop)
	_, err = l.lock(ctx, "a")
	require.ErrorIs(t, err, stop)
	turnA.end(nil)

	turnA, err = l.lock(context.Background(), "a")
	require.NoError(t, err)
	turnA.end(nil)
	require.Empty(t, l.locks, "unused locks take no memory")
}

// What a turn leaves is for the next one only, and does not change any more.
func TestKeyedLockPassesOnTheState(t *testing.T) {
	t.Parallel()
	var l keyedLock
	claim := newClaim(withVersion("11"))
	first, err := l.lock(context.Background(), claim.UID)
	require.NoError(t, err)
	require.Nil(t, first.latest())

	var seen []string
	leave := []*resourceapi.ResourceClaim{newClaim(withVersion("12")), nil, newClaim(withVersion("13"))}
	var wg sync.WaitGroup
	for range leave {
		wg.Go(func() {
			turn, err := l.lock(context.Background(), claim.UID)
			if err != nil {
				t.Error(err)
				return
			}
			version := "none"
			if state := turn.latest(); state != nil {
				version = state.ResourceVersion
			}
			seen = append(seen, version) // One after the other: that is what the lock is for.
			turn.end(leave[len(seen)-1])
		})
	}
	awaitUsers(t, &l, claim.UID, 1+len(leave))
	first.end(claim)
	claim.ResourceVersion = "the caller's own"
	wg.Wait()
	require.Equal(t, []string{"11", "12", "none"}, seen)

	last, err := l.lock(context.Background(), claim.UID)
	require.NoError(t, err)
	require.Nil(t, last.latest(), "nobody waited, so nothing was kept")
	last.end(nil)
}

func TestNewer(t *testing.T) {
	t.Parallel()
	own := newClaim(withVersion("10"))
	for name, tc := range map[string]struct {
		own, left string
		want      string
	}{
		"newer":                          {own: "10", left: "11", want: "11"},
		"more digits":                    {own: "9", left: "10", want: "10"},
		"older":                          {own: "10", left: "9", want: "10"},
		"cannot be compared":             {own: "10", left: "x11", want: "10"},
		"the caller's has no version":    {own: "", left: "11", want: ""},
		"what was left has no version":   {own: "10", left: "", want: "10"},
		"the caller's has a strange one": {own: "x10", left: "11", want: "x10"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, newer(newClaim(withVersion(tc.own)), newClaim(withVersion(tc.left))).ResourceVersion)
		})
	}
	require.Same(t, own, newer(own, nil))
	require.Same(t, own, newer(own, newClaim(withVersion("10"))), "the same version")
}
