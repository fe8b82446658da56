package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPendingUndos(t *testing.T) {
	t.Parallel()
	undos := newPendingUndos()
	require.False(t, undos.has("p"))
	undos.begin("p")
	undos.begin("p")
	undos.end("p")
	require.True(t, undos.has("p"))
	require.False(t, undos.has("q"))
	undos.end("p")
	require.False(t, undos.has("p"))
	require.Empty(t, undos.claims)
}
