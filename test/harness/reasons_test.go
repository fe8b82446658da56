package harness

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckReasons(t *testing.T) {
	t.Parallel()
	for message, fits := range map[string]bool{
		"0/3 nodes are available: 1 Insufficient cpu, 2 cannot allocate all claims: claim a/b request c: 1 device matches: 1 asked; 0 free; 1 held by other claims.": true,
		"0/3 nodes are available: claim a/b request c: device class x does not exist. preemption: 0/3 nodes are available: 3 Preemption is not helpful, or so.":      true,
		"0/3 nodes are available: 3 cannot allocate all claims: claim a/b, request c: no device matches.":                                                            false,
		"claim a/b, which is being deleted": true, // Not about nodes: PreEnqueue's own.
	} {
		require.Equal(t, fits, checkReasons(message) == nil, message)
	}
}
