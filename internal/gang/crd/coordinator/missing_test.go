package coordinator

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMissingGroups: gangs whose PodGroup is missing are tried rarely, however many there are, and at once when there is one.
func TestMissingGroups(t *testing.T) {
	inWorld(t, 10, func(w *world) {
		const gangs = 1000
		for i := range gangs {
			w.pods(fmt.Sprintf("gang%d", i), 0, 1)
		}
		attempts := func() (n int) {
			for i := range gangs {
				n += w.attempts(fmt.Sprintf("gang%d-0", i))
			}
			return n
		}
		time.Sleep(5 * time.Minute)
		before := attempts()
		require.GreaterOrEqual(w, before, gangs)
		for range 5 * 60 {
			time.Sleep(time.Second)
			w.StirAll() // A pod ends, or a slice changes.
		}
		require.InDelta(w, 5*time.Minute/perLook, attempts()-before, 300, "once in so long, all gangs together")
		w.group("gang7", 1)
		time.Sleep(time.Second)
		require.Equal(w, 1, w.bound("gang7"))
		for i := range gangs {
			w.delete(fmt.Sprintf("gang%d-0", i))
		}
	})
}
