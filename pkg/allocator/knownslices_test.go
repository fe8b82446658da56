package allocator_test

import (
	"reflect"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// A caller replaces the attributes of a device twice between two snapshots; the memory of
// the first may be that of the third.
func TestReplacedTwice(t *testing.T) {
	s := dropInCase(onNode("p", b.Device("gpu-0")))
	s.claims = []*resourceapi.ResourceClaim{b.Claim("c", b.Request("r", "gpu").Where(`device.attributes["gpu.example.com"].model == "good"`)).Obj()}
	cache := newCache()
	device := &s.slices[0].Spec.Devices[0]
	attrs := func(v string) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
		return map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: ptr.To(v)}}
	}
	same := 0
	for range 30 {
		device.Attributes = attrs("good")
		at := reflect.ValueOf(device.Attributes).Pointer()
		results, err := s.run(t.Context(), allocator.New, cache)
		require.NoError(t, err)
		require.Len(t, results, 1)
		device.Attributes = nil
		runtime.GC()
		runtime.GC()
		var keep []any
		for range 2000 {
			device.Attributes = attrs("bad")
			if reflect.ValueOf(device.Attributes).Pointer() == at {
				same++
				break
			}
			keep = append(keep, device.Attributes)
		}
		results, err = s.run(t.Context(), allocator.New, cache)
		require.NoError(t, err)
		require.Empty(t, results, "same address %d", same)
		runtime.KeepAlive(keep)
	}
	t.Log("same addresses", same)
}

// The pool of a node is often called as the node is.
func TestSliceThatPointsIntoItselfIsFreed(t *testing.T) {
	celCache := newCache()
	freed := func() weak.Pointer[resourceapi.ResourceSlice] {
		s := dropInCase(onNode("n", gpus(1)...))
		s.slices[0].Spec.NodeName = &s.slices[0].Spec.Pool.Name
		_, err := s.run(t.Context(), allocator.New, celCache)
		require.NoError(t, err)
		return weak.Make(s.slices[0])
	}()
	require.Eventually(t, func() bool { runtime.GC(); return freed.Value() == nil }, 3*time.Minute, time.Millisecond)
	runtime.KeepAlive(celCache)
}
