package inventory_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestNodesAreNotKeptAlive: what a node sees is remembered without keeping nodes that are gone.
func TestNodesAreNotKeptAlive(t *testing.T) {
	store := inventory.FromSlices([]*resourceapi.ResourceSlice{b.Slice("shared").OnAllNodes().Devices(b.Device("seat")).Obj()}, all)
	var nodes []weak.Pointer[v1.Node]
	for i := range 50 {
		node := b.Node(fmt.Sprintf("n%d", i))
		require.Len(t, store.OnNode(node), 1)
		nodes = append(nodes, weak.Make(node))
	}
	for range 10 {
		runtime.GC()
	}
	for _, node := range nodes {
		require.Nil(t, node.Value())
	}
	require.Len(t, store.OnNode(b.Node("n7")), 1, "a new one of that name")
}

// TestChangesComeAfterTheNewState: a reader that is told of a change on a node sees that the node
// has no pools any more.
func TestChangesComeAfterTheNewState(t *testing.T) {
	store := inventory.NewStore(all)
	slice := b.NodeSlice("n", b.Device("gpu")).Obj()
	for range 5_000 {
		store.RefreshSlice("n", func() *resourceapi.ResourceSlice { return slice })
		position := store.Changed.End()
		var gone sync.WaitGroup
		gone.Go(func() { store.RefreshSlice("n", func() *resourceapi.ResourceSlice { return nil }) })
		for store.Changed.End() == position { // The slice was the pool's only one, so that there is nothing else to be told.
		}
		require.False(t, store.IsLocal("n"))
		gone.Wait()
	}
}
