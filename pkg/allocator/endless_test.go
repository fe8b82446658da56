package allocator_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEndlessCapacity: whoever writes a claim or a slice can write a number of a billion digits. Neither
// the search nor the explanation calculates with it.
func TestEndlessCapacity(t *testing.T) {
	t.Parallel()
	_, err := nodeWith(0, bandwidth("10")...).everything().solve(t.Context(), wantsCapacity("bandwidth", "1e999999999"))
	require.ErrorContains(t, err, "nobody can calculate with")
	result := nodeWith(0, bandwidth("1e999999999")...).everything().mustNotFit(t, wantsCapacity("bandwidth", "1"))
	require.Contains(t, result.Explain().String(), "nobody can calculate with")
}
