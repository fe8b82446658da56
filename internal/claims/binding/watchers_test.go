package binding

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWatchers(t *testing.T) {
	t.Parallel()
	var w Watchers
	told := func(changed <-chan struct{}) bool {
		select {
		case <-changed:
			return true
		default:
			return false
		}
	}
	w.Tell("a") // There are no watchers.
	first, leaveFirst := w.watch("a", "b")
	second, leaveSecond := w.watch("b")
	require.False(t, told(first), "what was before does not count")

	w.Tell("b")
	w.Tell("b")
	require.True(t, told(first))
	require.False(t, told(first), "how often does not matter")
	require.True(t, told(second))
	w.Tell("a")
	require.True(t, told(first))
	require.False(t, told(second))

	leaveFirst()
	w.Tell("a")
	w.Tell("b")
	require.False(t, told(first))
	require.True(t, told(second))
	leaveSecond()
	require.Empty(t, w.byObject)
	require.Zero(t, w.count.Load())
	require.True(t, w.Idle())
}
