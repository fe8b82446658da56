package quartermaster

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestRecentPods(t *testing.T) {
	t.Parallel()
	pods := newRecentPods()
	numbered := func(i int) types.UID { return types.UID(fmt.Sprint(i)) }
	for i := range maxRecentPods {
		pods.add(numbered(i))
	}
	require.True(t, pods.has(numbered(0)))
	require.False(t, pods.has(numbered(maxRecentPods)))

	pods.add(numbered(0)) // It is the latest now.
	pods.add(numbered(maxRecentPods))
	require.True(t, pods.has(numbered(maxRecentPods)))
	require.True(t, pods.has(numbered(0)), "was just added again")
	require.False(t, pods.has(numbered(1)), "the oldest goes")
	require.Len(t, pods.known, maxRecentPods)
	require.Len(t, pods.order, maxRecentPods)
}

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
