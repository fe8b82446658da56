package inventory

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCacheKeepsWhatWasFirst: there are more entries than it takes for the way in which
// they are kept to change, and competitors for each.
func TestCacheKeepsWhatWasFirst(t *testing.T) {
	t.Parallel()
	const keys, competitors = 3 * fewCached, 8
	var c Cache
	var got [competitors][keys]any
	var wait sync.WaitGroup
	for i := range competitors {
		wait.Go(func() {
			for key := range keys {
				key = (key + i) % keys
				got[i][key] = c.Put(key, i)
			}
		})
	}
	wait.Wait()
	for key := range keys {
		stored, found := c.Get(key)
		require.True(t, found)
		for i := range competitors {
			require.Equal(t, stored, got[i][key])
		}
	}
	_, found := c.Get(keys)
	require.False(t, found)
	_, found = new(Cache).Get(0)
	require.False(t, found)
	require.Equal(t, 7, Cached(&c, "derived", func() int { return 7 }))
	require.Equal(t, 7, Cached(&c, "derived", func() int { return 8 }))
}
