package write

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// atOnce makes the calls for one claim at the same time, so that each has to wait for
// others, in whatever order.
func atOnce(t *testing.T, w *Writer, uid types.UID, calls ...func()) {
	t.Helper()
	first, err := w.busy.Lock(t.Context(), uid)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for _, call := range calls {
		wg.Go(call)
	}
	awaitUsers(t, &w.busy, uid, 1+len(calls))
	first.End(nil)
	wg.Wait()
	require.Empty(t, w.busy.locks, "unused locks take no memory")
}

// awaitUsers waits until so many hold the lock or wait for it.
func awaitUsers(t *testing.T, l *ClaimLocks, uid types.UID, users int) {
	t.Helper()
	require.Eventually(t, func() bool { return l.usersOf(uid) == users }, 3*time.Minute, time.Millisecond)
}

func (l *ClaimLocks) usersOf(uid types.UID) int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.locks[uid] == nil {
		return 0
	}
	return l.locks[uid].users
}

func TestClaimLocks(t *testing.T) {
	t.Parallel()
	var l ClaimLocks
	ctx, cancel := context.WithCancelCause(context.Background())

	turnA, err := l.Lock(ctx, "a")
	require.NoError(t, err)
	turnB, err := l.Lock(ctx, "b")
	require.NoError(t, err, "claims do not wait for other claims")
	turnB.End(nil)

	stop := errors.New("stop")
	cancel(stop)
	_, err = l.Lock(ctx, "a")
	require.ErrorIs(t, err, stop)
	turnA.End(nil)

	turnA, err = l.Lock(context.Background(), "a")
	require.NoError(t, err)
	turnA.End(nil)
	require.Empty(t, l.locks, "unused locks take no memory")
}

// What a turn leaves is for the next one only, and does not change any more.
func TestClaimLocksPassesOnTheState(t *testing.T) {
	t.Parallel()
	var l ClaimLocks
	claim := newClaim(withVersion("11"))
	first, err := l.Lock(context.Background(), claim.UID)
	require.NoError(t, err)
	require.Nil(t, first.latest())

	var seen []string
	leave := []*resourceapi.ResourceClaim{newClaim(withVersion("12")), nil, newClaim(withVersion("13"))}
	var wg sync.WaitGroup
	for range leave {
		wg.Go(func() {
			turn, err := l.Lock(context.Background(), claim.UID)
			if err != nil {
				t.Error(err)
				return
			}
			version := "none"
			if state := turn.latest(); state != nil {
				version = state.ResourceVersion
			}
			seen = append(seen, version) // One after the other, because of the lock.
			turn.End(leave[len(seen)-1])
		})
	}
	awaitUsers(t, &l, claim.UID, 1+len(leave))
	first.End(claim)
	claim.ResourceVersion = "the caller's own"
	wg.Wait()
	require.Equal(t, []string{"11", "12", "none"}, seen)

	last, err := l.Lock(context.Background(), claim.UID)
	require.NoError(t, err)
	require.Nil(t, last.latest(), "nobody waited, so nothing was kept")
	last.End(nil)
}

// A state that was requested before a caller began to wait is not up to date for that caller, even
// if it comes from a caller for which it was.
func TestClaimLocksKnowsWhatIsUpToDate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l ClaimLocks
		var turn *Turn
		wait := func() {
			go func() {
				own, err := l.Lock(context.Background(), "a")
				if err != nil {
					t.Error(err)
				}
				turn = own
			}()
			synctest.Wait()
		}
		wait()
		first := turn
		wait()
		first.End(newClaim(withVersion("10")))
		synctest.Wait()
		second := turn
		require.Equal(t, "10", second.latest().ResourceVersion)
		require.False(t, second.upToDate(), "the first began before the second waited")

		wait()
		wait()
		second.End(nil)
		synctest.Wait()
		third := turn
		require.Nil(t, third.latest())
		third.End(newClaim(withVersion("11")))
		synctest.Wait()
		fourth := turn
		require.True(t, fourth.upToDate(), "it waited before the third began")

		wait()
		fourth.End(fourth.latest())
		synctest.Wait()
		fifth := turn
		require.Equal(t, "11", fifth.latest().ResourceVersion)
		require.False(t, fifth.upToDate(), "it waited after the third had asked")
		fifth.End(nil)
	})
}

// Of those who wait, one has the claim at a time.
func TestClaimLocksOneAfterTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var locks ClaimLocks
		turn, err := locks.Lock(t.Context(), "a")
		require.NoError(t, err)
		other, err := locks.Lock(t.Context(), "b")
		require.NoError(t, err, "another claim is another matter")
		other.End(nil)

		inside, entered := 1, 0
		for range 10 {
			go func() {
				turn, err := locks.Lock(context.Background(), "a")
				if err != nil {
					return
				}
				inside++
				if inside == 1 {
					entered++
				}
				inside--
				turn.End(nil)
			}()
		}
		synctest.Wait()
		require.Zero(t, entered)
		gaveUp := errors.New("no time")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gaveUp)
		_, err = locks.Lock(ctx, "a")
		require.ErrorIs(t, err, gaveUp)
		inside--
		turn.End(nil)
		synctest.Wait()
		require.Equal(t, 10, entered, "one after the other")
		require.Empty(t, locks.locks)
	})
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
	left := newClaim(withVersion("10"))
	require.Same(t, left, newer(own, left), "the same version: more is known about when it was")
}
