package informer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOrder(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b           string
		newer, atLeast bool
	}{
		{"10", "9", true, true},
		{"9", "10", false, false},
		{"10", "10", false, true},
		{"", "9", false, false},
		{"9", "", false, false},
		{"", "", false, false},
		{"x", "x", false, false},
		{"10", "0", false, false}, // 0 is no version of an object.
	} {
		require.Equal(t, tc.newer, Newer(tc.a, tc.b), "%q newer than %q", tc.a, tc.b)
		require.Equal(t, tc.atLeast, AtLeast(tc.a, tc.b), "%q at least %q", tc.a, tc.b)
	}
}
