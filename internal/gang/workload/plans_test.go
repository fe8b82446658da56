package workload

import (
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPlans: each group is planned the first time that it is tried. Groups that were planned in vain take one part in ten of the time, one after the
// other, and each is tried again when it is its turn.
func TestPlans(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p Plans
		var mutex sync.Mutex
		tried := make(map[string]int)
		triedNow := func() map[string]int {
			synctest.Wait()
			mutex.Lock()
			defer mutex.Unlock()
			return maps.Clone(tried)
		}
		plan := func(group string, took time.Duration, inVain bool) bool {
			may := p.May(group, func() bool {
				mutex.Lock()
				defer mutex.Unlock()
				tried[group]++
				return group != "gone"
			})
			if may {
				time.Sleep(took)
				p.Planned(group, took, inVain)
			}
			return may
		}
		require.True(t, plan("fits", time.Second, false))
		require.True(t, plan("fits", time.Second, false), "no plan was in vain")
		for _, group := range []string{"a", "b", "c"} {
			require.True(t, plan(group, time.Second, true), "first time of %s", group)
		}
		require.True(t, plan("fits", time.Second, false), "others do not wait")
		for _, group := range []string{"b", "a", "c", "b"} {
			require.False(t, plan(group, time.Second, true))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(26 * time.Second)
		require.Empty(t, triedNow())
		time.Sleep(2 * time.Second)
		require.Equal(t, map[string]int{"b": 1}, triedNow(), "it waited for the longest time")
		require.False(t, plan("a", time.Second, true), "it is the turn of b")
		require.True(t, plan("b", 100*time.Millisecond, true))
		require.False(t, plan("b", 100*time.Millisecond, true))
		time.Sleep(time.Minute)
		require.Equal(t, map[string]int{"a": 1, "b": 2, "c": 1}, triedNow(), "if one is not planned, the next follows")

		require.True(t, plan("a", 0, false))
		require.True(t, plan("b", time.Second, true))
		require.True(t, plan("a", time.Second, false), "it was not in vain the last time")
		time.Sleep(time.Hour)
		p.Planned("short", time.Millisecond, true)
		p.Planned("other", time.Second, true)
		require.Len(t, p.inVain, 1)
		p.Planned("other", time.Hour, true)
		require.Equal(t, longestRest, time.Until(p.rested))

		p.Planned("gone", time.Second, true)
		require.False(t, plan("gone", time.Second, true))
		time.Sleep(time.Millisecond)
		require.False(t, plan("other", time.Second, true))
		time.Sleep(longestRest + time.Second)
		require.Equal(t, 1, triedNow()["gone"])
		require.Equal(t, 1, triedNow()["other"], "it does not wait for a group that is gone")
	})
}
