package inventory

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
)

// KnownContents returns how many contents the store could share.
func (s *Store) KnownContents() int { return len(s.contents.byHash) }

func TestContentsWithTheSameHashAreNotShared(t *testing.T) {
	slice := func(driver string) *resourceapi.ResourceSlice {
		return &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Driver: driver, Devices: make([]resourceapi.Device, 1)}}
	}
	known, mine, other := newContents(), slice("mine"), slice("other")
	first := known.take(other, nil)
	delete(known.byHash, first.hash)
	first.hash = known.hashOf("mine", mine.Spec.Devices)
	known.byHash[first.hash] = first

	second := known.take(mine, nil)
	require.NotSame(t, first, second)
	require.Same(t, second, known.take(slice("mine"), second), "it is still found by the slice that has it")
	known.release(second)
	known.release(second)
	require.Same(t, first, known.byHash[first.hash], "the end of one must not be taken for that of the other")
	known.release(first)
	require.Empty(t, known.byHash)
}
