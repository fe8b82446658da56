package allocationlog

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
)

// Many writers at once: each allocates a claim, waits for its own write and looks. Of
// those that took the same device, exactly the first one stays.
func TestWritersAtOnce(t *testing.T) {
	t.Parallel()
	const writers, devices = 200, 20
	w := newWorld(t)
	events := make(chan *resourceapi.ResourceClaim, writers)
	version, order := uint64(1), sync.Mutex{}
	write := func(claim *resourceapi.ResourceClaim) uint64 {
		order.Lock()
		defer order.Unlock()
		version++
		events <- at(version, claim)
		return version
	}

	first, stayed := make(map[string]uint64), make(map[string]uint64)
	var results sync.Mutex
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			name, device := fmt.Sprint("c", i), fmt.Sprint("gpu-", i%devices)
			written := write(ours(name, device))
			if err := w.Await(context.Background(), strconv.FormatUint(written, 10)); err != nil {
				t.Error(err)
			}
			conflict := w.lost(uidOf(name))
			w.ForeignWithin(time.Minute)
			results.Lock()
			defer results.Unlock()
			if known := first[device]; known == 0 || written < known {
				first[device] = written
			}
			if conflict == nil {
				if stayed[device] != 0 {
					t.Errorf("device %s: two writers stay", device)
				}
				stayed[device] = written
			}
		})
	}
	for range writers {
		claim := <-events
		require.NoError(t, feed{w.Log}.Update(claim))
		feed{w.Log}.UpdateResourceVersion(claim.ResourceVersion)
	}
	wg.Wait()
	require.Len(t, first, devices)
	require.Equal(t, first, stayed)
	require.GreaterOrEqual(t, len(w.reported), writers-devices)
}
