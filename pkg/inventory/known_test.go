package inventory

import (
	"fmt"
	"runtime"
	"testing"
	"time"
	"unsafe"
	"weak"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// TestOldVersionsAreFreed: if the slices of a pool are published again in turn, and listed with the
// newest first, only the slices that the caller holds are kept.
func TestOldVersionsAreFreed(t *testing.T) {
	known := NewKnown(Options{})
	look := func(list ...*resourceapi.ResourceSlice) *Slice {
		pools := known.NewSnapshot(list).OnNode(&v1.Node{})
		require.Len(t, pools, 1)
		require.Equal(t, Complete, pools[0].State, pools[0].Reason)
		return pools[0].Devices[0].Slice
	}
	published := func(name string) *resourceapi.ResourceSlice {
		slice := member(name, 1, 2, "").ResourceSlice
		slice.Spec.Devices = []resourceapi.Device{{Name: name}}
		return slice
	}
	older, newer := published("a"), published("b")
	look(older, newer)
	older, newer = newer, published("a")
	replaced := weak.Make(look(newer, older))
	for round := range 20 {
		older, newer = newer, published([]string{"b", "a"}[round%2])
		look(newer, older)
	}
	require.Eventually(t, func() bool { runtime.GC(); return replaced.Value() == nil }, 5*time.Second, time.Millisecond,
		fmt.Sprintf("an old version of the slices is kept, now that %s is the newest", newer.Name))
	runtime.KeepAlive(newer)
	runtime.KeepAlive(older)
	runtime.KeepAlive(known)
}

// TestKnownSlicesAreForgotten: what is known of slices goes with them, and when one changes
// where it is, nothing is left of what it was.
func TestKnownSlicesAreForgotten(t *testing.T) {
	known := NewKnown(Options{})
	count := func() int {
		known.mutex.Lock()
		defer known.mutex.Unlock()
		return len(known.slices)
	}
	func() {
		var list []*resourceapi.ResourceSlice
		for i := range 10 {
			list = append(list, member(fmt.Sprint("slice-", i), 1, 10, "").ResourceSlice)
		}
		for generation := range int64(3) {
			for _, slice := range list {
				slice.Spec.Pool.Generation = generation
			}
			require.Len(t, known.NewSnapshot(list).OnNode(&v1.Node{}), 1)
			require.Equal(t, len(list), count())
		}
		runtime.KeepAlive(list)
	}()
	require.Eventually(t, func() bool { runtime.GC(); return count() == 0 }, 5*time.Second, time.Millisecond)
	runtime.KeepAlive(known)
}

// TestSliceInThePlaceOfAnother: that a slice is gone is told late, when another one may be
// at its address.
func TestSliceInThePlaceOfAnother(t *testing.T) {
	known, slice := NewKnown(Options{}), member("old", 1, 1, "").ResourceSlice
	before := known.slice(slice)
	*slice = *member("new", 1, 1, "").ResourceSlice
	after := known.slice(slice)
	require.NotSame(t, before, after)
	require.Equal(t, "new", after.Name)
	forgetSlice(forgotten{known.self, uintptr(unsafe.Pointer(slice))})
	require.NotSame(t, after, known.slice(slice))
	require.Same(t, known.slice(slice), known.slice(slice))
	runtime.KeepAlive(slice)
}
