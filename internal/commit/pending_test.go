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

// TestReleaseOrAttempt: what waits is released only while no attempt has begun.
func TestReleaseOrAttempt(t *testing.T) {
	t.Parallel()
	var releases pending
	releases.tries("p", 1)
	require.False(t, releases.beginUnlessTried("p"))
	require.False(t, releases.has("p"))
	require.True(t, releases.beginUnlessTried("q"))
	releases.tries("p", -1)
	require.True(t, releases.beginUnlessTried("p"))
	releases.end("p")
	releases.end("q")
	require.Empty(t, releases.claims)
	require.Empty(t, releases.tried)
}
