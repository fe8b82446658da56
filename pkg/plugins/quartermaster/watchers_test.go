package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWatchers(t *testing.T) {
	t.Parallel()
	var w watchers
	told := func(changed <-chan struct{}) bool {
		select {
		case <-changed:
			return true
		default:
			return false
		}
	}
	w.changed("a") // Nobody watches.
	first, leaveFirst := w.watch("a", "b")
	second, leaveSecond := w.watch("b")
	require.False(t, told(first), "what was before does not count")

	w.changed("b")
	w.changed("b")
	require.True(t, told(first))
	require.False(t, told(first), "how often does not matter")
	require.True(t, told(second))
	w.changed("a")
	require.True(t, told(first))
	require.False(t, told(second))

	leaveFirst()
	w.changed("a")
	w.changed("b")
	require.False(t, told(first))
	require.True(t, told(second))
	leaveSecond()
	require.Empty(t, w.byObject)
	require.Zero(t, w.count.Load())
}
