package simulation

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clock has the clock of the scheduler's machine be ahead by that much from then on.
func (s *script) clock(after, ahead time.Duration) *script {
	s.themes[clocks] = true
	return s.add(after, fmt.Sprintf("the clock is ahead by %s", ahead), func(w *World) { w.replicas[0].clock.set(ahead) })
}

// TestClocks lives through histories in which a clock is wrong. The one of a process that allocates a claim may be that by an hour.
func TestClocks(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		waits := func() *script {
			return new(script).add(0, "node-0", func(w *World) { w.createNode("node-0") }).fabric(1).clock(0, ahead).pod(10*time.Second, "waits", 1, "1", 0)
		}
		attaches := func(s *script) *script {
			return s.add(4*time.Minute, "the driver attaches what is allocated from now on", (*World).mend).runs(2*time.Minute, "waits")
		}
		t.Run(ahead.String(), func(t *testing.T) {
			t.Run("it is set right while the next process begins", attaches(waits().crash(10*time.Second).clock(0, 0)).passes)
			t.Run("it is set right while a pod waits", attaches(waits().clock(10*time.Second, 0)).passes)
			// Seed 950005 of an early generator: each pod waited by its own beginning, so that one of them always had the claim.
			t.Run("it is set right while pods share a claim", attaches(waits().crash(10*time.Second).clock(0, 0).joins(32*time.Second, "joins", "waits", 0)).runs(0, "joins").passes)
			t.Run("it becomes wrong while a pod waits", attaches(waits().clock(0, 0).clock(10*time.Second, ahead)).passes)
		})
	}
}

// TestGuardedClocks: what a process writes back is for the guard what it is for the server, whatever the clock of the process.
func TestGuardedClocks(t *testing.T) {
	history := new(script).add(0, "node-0", func(w *World) { w.createNode("node-0") }).fabric(1).clock(0, time.Hour).pod(10*time.Second, "first", 1, "1", 0).
		add(10*time.Second, "the driver attaches", (*World).mend).runs(time.Minute, "first").joins(0, "joins", "first", 0).runs(time.Minute, "joins")
	history.themes[guarded] = true
	history.passes(t)
}

// TestClock: a process reads by its own clock and writes by it, and what it writes back is as it was, whatever the clock was meanwhile.
func TestClock(t *testing.T) {
	c := &clock{}
	c.set(time.Minute)
	stored := &object{fields: map[string]any{"kind": "Lease", "metadata": map[string]any{"creationTimestamp": "2000-01-01T00:05:00Z"}, "spec": map[string]any{"renewTime": "2000-01-01T00:05:00.250000Z"}}}
	require.JSONEq(t, `{"kind":"Lease","metadata":{"creationTimestamp":"2000-01-01T00:04:00Z"},"spec":{"renewTime":"2000-01-01T00:04:00.250000Z"}}`, string(c.read(stored).json()))
	read, err := decode(c.read(stored).json())
	require.NoError(t, err)
	c.set(-time.Hour)
	require.Equal(t, stored.fields, c.written(read, stored))
	read["spec"] = map[string]any{"renewTime": "2000-01-01T02:00:00.000000Z", "acquireTime": nil, "holders": []any{"2000", int64(1)}}
	require.Equal(t, map[string]any{"renewTime": "2000-01-01T01:00:00.000000Z", "acquireTime": nil, "holders": []any{"2000", int64(1)}}, c.written(read, stored)["spec"])
	require.Equal(t, read, (*clock)(nil).written(read, stored))
	stored.fields["kind"] = "DeviceClass"
	require.Same(t, stored, c.read(stored), "which of two classes is the newer one")
}
