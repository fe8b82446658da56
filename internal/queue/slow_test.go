package queue

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSlowOrdinaryPodsAreNotOvertaken: on a busy machine the attempts for all pods take long. The pods of another namespace are older, and come first in the
// queue as soon as they are let in.
func TestSlowOrdinaryPodsAreNotOvertaken(t *testing.T) {
	for _, takes := range []time.Duration{4 * time.Millisecond, 6 * time.Millisecond, 20 * time.Millisecond} {
		inBubble(t, takes.String(), func(t *testing.T) {
			m := newModel(map[string]time.Duration{"many": 6 * time.Millisecond, "few": takes}, "many")
			m.known("many", "few")
			m.create("many", 0, 2000)
			time.Sleep(time.Millisecond)
			go m.stream("few", 250*time.Millisecond, 20)
			require.LessOrEqual(t, m.run(time.Now().Add(6*time.Second)), 5*look)
			require.Equal(t, 20, m.attempts("few"))
			require.LessOrEqual(t, slices.Max(m.waited["few"]), 2*window)
		})
	}
}

// TestVerySlowAttempts: pods that were let in wait longer than longestShut because each attempt takes that long, and are not lost. No more
// are let in, which would come before a younger pod of another namespace.
func TestVerySlowAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(map[string]time.Duration{"costly": longestShut + longestShut/2, "few": 2 * ordinary}, "costly")
		m.known("few")
		go m.try(podIn("costly", 1000, 0))
		time.Sleep(10 * time.Millisecond)
		m.create("costly", 0, 20)
		time.Sleep(10 * time.Millisecond)
		m.create("few", 0, 1)
		time.Sleep(longestShut + longestShut/2)
		m.run(time.Now().Add(time.Minute))
		require.LessOrEqual(t, slices.Index(m.tried, "few"), 2+int(window/unknown), "one is being tried, some are let in before its attempt ends, and one waits for longer")
		require.Equal(t, 21, m.attempts("costly"))
		m.isQuiet(t)
	})
}
