package allocationlog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// requireUndecided compares which claims cannot be judged.
func (w *world) requireUndecided(want map[string]bool) {
	w.t.Helper()
	got := make(map[string]bool, len(want))
	for name := range want {
		got[name] = w.Undecided(uidOf(name)) != nil
	}
	require.Equal(w.t, want, got)
}

// nextGeneration is the pool of partitioned, published in a new generation with other counters.
func nextGeneration(memory string) (counters, devices *b.SliceBuilder) {
	devices = partitioned()[1]
	counters = b.Slice("counters").InPool("a", 2, 2).OnAllNodes().Counters("gpu", "memory", memory).Counters("second", "memory", "10Gi")
	return counters, devices.InPool("a", 2, 2)
}

// A pool with counters passes through "incomplete" with each new generation. What it was
// before counts meanwhile.
func TestIncompletePoolIsJudgedByItsLastCompleteState(t *testing.T) {
	t.Parallel()
	for name, unpublish := range map[string]func(*world){
		"a new generation begins":                  func(w *world) { counters, _ := nextGeneration("40Gi"); w.publish(counters) },
		"a slice goes":                             func(w *world) { w.withdraw("devices") },
		"all slices go":                            func(w *world) { w.withdraw("devices", "counters") },
		"all slices go, and the first comes again": func(w *world) { w.withdraw("devices", "counters"); w.publish(partitioned()[1]) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, partitioned()...)
			w.write(10, ours("x", "big"))
			w.clock.SetTime(start.Add(time.Hour))
			unpublish(w)
			w.clock.SetTime(start.Add(2 * time.Hour))
			w.write(20, ours("y", "half-0"))
			w.write(30, ours("z", "plain"))
			w.requireUndecided(map[string]bool{"x": false, "y": false, "z": false})
			w.requireVerdicts(map[string]string{"x": "stays", "y": "earlier x: counter half-0 gpu/memory", "z": "stays"})
			w.write(40, ours("v", "new"))
			w.requireUndecided(map[string]bool{"v": true, "y": false, "z": false})
			w.write(50, ours("u", "small-0"))
			w.requireUndecided(map[string]bool{"u": true})
		})
	}
}

// If a pool was never complete, the consumption of its devices is unknown, unless they are known
// and consume nothing.
func TestPoolThatWasNeverComplete(t *testing.T) {
	t.Parallel()
	counters, devices := partitioned()[0], partitioned()[1]
	w := newUnsyncedWorld(t, devices)
	w.relist(100, at(50, ours("x", "half-0")), at(60, ours("y", "half-1")), at(70, ours("z", "plain")), at(80, sharing("u", "unknown", "s1", "1Gi")))
	w.write(110, ours("v", "small-0"))
	w.requireUndecided(map[string]bool{"v": true, "x": true, "z": false, "u": true})
	require.ErrorContains(t, w.Undecided(uidOf("v")), "1 of 2 slices of generation 1 is published")

	w.publish(counters)
	w.requireUndecided(map[string]bool{"v": false, "x": false, "z": false, "u": false})
	w.requireVerdicts(map[string]string{"v": "earlier x: counter small-0 gpu/memory"})
}

// A capacity is that of a device, so its slice is enough.
func TestCapacityOfAnIncompletePool(t *testing.T) {
	t.Parallel()
	w := newWorld(t, b.Slice("a").InPool("a", 1, 2).OnAllNodes().Devices(b.Device("nic").Shared().Capacity("memory", "40Gi")))
	w.write(10, sharing("x", "nic", "s1", "30Gi"))
	w.write(20, sharing("y", "nic", "s2", "30Gi"))
	w.requireUndecided(map[string]bool{"x": false, "y": false})
	w.requireVerdicts(map[string]string{"x": "stays", "y": "earlier x: capacity nic memory"})
}

// An unknown device may have been published just before it was allocated. A device that stays
// unknown was withdrawn, and does not block the judgement of other claims for ever.
func TestDeviceThatIsNotPublished(t *testing.T) {
	t.Parallel()
	for name, slices := range map[string][]*b.SliceBuilder{"of a known pool": partitioned(), "of an unknown pool": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, slices...)
			w.write(10, ours("x", "withdrawn"))
			w.requireUndecided(map[string]bool{"x": false}) // It is alone.
			w.clock.SetTime(start.Add(publishedWithin))
			w.write(20, ours("z", "unknown"))
			w.write(30, ours("y", "half-0"))
			w.requireUndecided(map[string]bool{"x": false, "y": true, "z": true})
			w.clock.SetTime(start.Add(2 * publishedWithin))
			w.requireUndecided(map[string]bool{"x": false, "y": false, "z": false})
		})
	}
}

// What was allocated before the start counts from when the server has recorded that.
func TestWithdrawnDeviceAfterARestart(t *testing.T) {
	t.Parallel()
	w := newUnsyncedWorld(t, partitioned()...)
	w.relist(100, at(50, ours("x", "withdrawn")), at(60, ours("y", "half-0")))
	w.requireUndecided(map[string]bool{"x": false, "y": false})
}

func TestLastStatesAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, partitioned()...)
	w.write(10, ours("x", "big"))
	w.withdraw("devices")
	require.Len(t, w.last, 1)
	w.withdraw("counters")
	require.Len(t, w.last, 1, "somebody has its devices")
	w.TakeChanged()
	w.remove(20, ours("x", "big"))
	w.TakeChanged()
	require.Empty(t, w.last)

	w.publish(partitioned()...)
	w.withdraw("devices")
	require.Len(t, w.last, 1)
	w.publish(partitioned()...)
	require.Empty(t, w.last, "it is complete again")
	w.withdraw("devices", "counters")
	require.Empty(t, w.last, "nobody has its devices")
}
