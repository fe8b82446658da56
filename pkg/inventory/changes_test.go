package inventory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

func TestChanges(t *testing.T) {
	var log inventory.Changes[int]
	changed, start, complete := log.Since(0)
	require.Empty(t, changed)
	require.True(t, complete)

	log.Add(1)
	log.Add(2)
	changed, end, complete := log.Since(start)
	require.Equal(t, []int{1, 2}, changed)
	require.True(t, complete)
	changed, _, _ = log.Since(end)
	require.Empty(t, changed)

	for i := range 8192 {
		log.Add(i)
	}
	changed, _, complete = log.Since(end)
	require.Len(t, changed, 8192)
	require.Equal(t, 8191, changed[8191])
	require.True(t, complete)
	_, _, complete = log.Since(start)
	require.False(t, complete, "the first ones are forgotten")
}
