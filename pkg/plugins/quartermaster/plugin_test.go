package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
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

func TestClaimKeysOfPod(t *testing.T) {
	t.Parallel()
	pod := newPod("p", uses("a"), uses("a"), template("gpu"), made("gpu", "p-gpu"), template("nic"), template("none"), made("none", ""))
	keys, err := claimKeysOfPod(pod)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"default/a", "default/p-gpu"}, keys)
	keys, err = claimKeysOfPod(&v1.Node{})
	require.NoError(t, err)
	require.Empty(t, keys)
}
