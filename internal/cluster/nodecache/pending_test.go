package nodecache_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/nodecache"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestPendingIsNotKnown: while a selector is still being evaluated for a node, nothing is
// known about it, and afterwards it is without any other change.
func TestPendingIsNotKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(1, 2)
		claim := b.Claim("claim", b.Request("gpu", "gpu").Where(`device.driver == "gpu.example.com"`)).Obj()
		question := &nodecache.Question{Task: c.solver.Prepare([]*resourceapi.ResourceClaim{claim})}
		ctx := selector.WithBudget(t.Context(), selector.NewBudget(0, 0))
		answer := c.index.Find(ctx, question)
		names, ok := answer.Names(10)
		require.True(t, ok)
		require.Len(t, names, 1)
		require.False(t, answer.Has("n0"))
		synctest.Wait()
		require.True(t, c.index.Find(ctx, question).Has("n0"))
	})
}
