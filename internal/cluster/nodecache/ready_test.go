package nodecache_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/nodecache"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/noderesources"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

func anyNode(string) bool { return true }

// TestReadyNodesAreFound: nodes where the pod would wait for devices to get ready are no choice as long as others may have some that
// are ready, which are better whatever they cost (KEP-5007).
func TestReadyNodesAreFound(t *testing.T) {
	const nodes = 100
	p := newPriced(nodes)
	looks := p.counted(10, 20)
	p.late = map[string]int{}
	for i := range nodes {
		p.late[fmt.Sprintf("n%d", i)] = 1
	}
	p.late["n99"] = 0 // It costs the most.
	q := p.asking(t, 1, 1)
	q.Accepts = anyNode
	a := p.index.Find(t.Context(), q)
	require.EqualValues(t, nodes, looks.Load())
	require.Contains(t, best(a, 2, 2), "n99")
	require.Equal(t, []string{"n99"}, slices.Sorted(maps.Keys(a.BestReady(5, 5, anyNode))))
	require.Empty(t, a.BestReady(5, 5, func(node string) bool { return node != "n99" }))

	p.index.Find(t.Context(), q)
	require.EqualValues(t, nodes, looks.Load(), "all is known")
}

// TestNoWaitWhileInDoubt: nodes where the pod would wait for its devices are no choice while an expression is still being evaluated for
// another node that suits the pod.
func TestNoWaitWhileInDoubt(t *testing.T) {
	for name, test := range map[string]struct {
		late   int
		accept func(string) bool
		err    error
		best   []string
	}{
		"late":                {late: 1, accept: anyNode, err: selector.ErrPending},
		"ready":               {accept: anyNode, err: selector.ErrPending, best: []string{"n0"}},
		"other does not suit": {late: 1, accept: func(node string) bool { return node == "n0" }, err: selector.ErrPending, best: []string{"n0"}},
		"other failed":        {late: 1, accept: anyNode, err: errors.New("the expression is broken"), best: []string{"n0"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPriced(2)
			p.late = map[string]int{"n0": test.late}
			q := p.asking(t, 1, 1)
			q.Accepts = anyNode
			rate := q.Rate
			q.Rate = func(ctx context.Context, site allocator.NodeView, room noderesources.Resources) (nodecache.Verdict, error) {
				if site.Node.Name == "n1" {
					return nodecache.Verdict{}, test.err
				}
				return rate(ctx, site, room)
			}
			require.Equal(t, test.best, slices.Sorted(maps.Keys(p.index.Find(t.Context(), q).Best(5, 5, test.accept))))
		})
	}
}

// TestOwnDevices: what nodes have for themselves can be asked for where the task could use a fabric as well, and it says whether the
// fabric's devices all have to be made ready.
func TestOwnDevices(t *testing.T) {
	p := newPriced(3)
	fabric := b.Slice("fabric").OnAllNodes().Devices(b.Device("late").BindingCondition("attached")).Obj()
	p.store.RefreshSlice("fabric", func() *resourceapi.ResourceSlice { return fabric })
	q := p.asking(t, 1, 1)
	q.Accepts = anyNode
	require.True(t, p.index.Find(t.Context(), q).IsShared())
	require.True(t, p.index.SharedGetReady(t.Context(), q.Task))
	own := *q
	own.Own = true
	for range 2 {
		require.Equal(t, []string{"n0", "n1"}, slices.Sorted(maps.Keys(p.index.Find(t.Context(), &own).BestReady(2, 2, anyNode))))
		require.True(t, p.index.Find(t.Context(), q).IsShared(), "another question")
	}

	ready := b.Slice("switch").OnAllNodes().Devices(b.Device("ready")).Obj()
	p.store.RefreshSlice("switch", func() *resourceapi.ResourceSlice { return ready })
	require.False(t, p.index.SharedGetReady(t.Context(), q.Task))
}
