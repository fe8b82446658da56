package commit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPending(t *testing.T) {
	t.Parallel()
	var releases pending
	require.False(t, releases.has("p"))
	releases.begin("p")
	releases.begin("p")
	releases.end("p")
	require.True(t, releases.has("p"))
	require.False(t, releases.has("q"))
	releases.end("p")
	require.False(t, releases.has("p"))
	require.Empty(t, releases.claims)
}
