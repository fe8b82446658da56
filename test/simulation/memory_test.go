package simulation

import (
	"runtime"
	"testing"
	"weak"
)

// TestWorldsAreCollected: nothing of the process holds a world after its end. A process lives through hundreds of them.
func TestWorldsAreCollected(t *testing.T) {
	var worlds []weak.Pointer[World]
	for themes := range 3 {
		seed := uint64(1)
		for ; !NewHistory(seed, *length, "").themes[[]string{labeledGroups, podGroups, others}[themes]]; seed++ {
		}
		worlds = append(worlds, weak.Make(Live(t, NewHistory(seed, *length, ""), nil)))
	}
	Live(t, NewHistory(1, 0, ""), nil) // The frames of this goroutine held the last one.
	for range 3 {
		runtime.GC() // What has a finalizer, or is in a pool, takes more than one.
	}
	for i, world := range worlds {
		if w := world.Value(); w != nil {
			t.Errorf("world %d, of seed %d, is still held by something (see runtime/debug.WriteHeapDump)", i, w.seed)
		}
	}
}
