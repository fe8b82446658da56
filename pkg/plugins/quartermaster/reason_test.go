package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/internal/nodes"
)

// TestReasonBudget: once finding reasons took too long, nodes say no more than for which
// claims they have no devices.
func TestReasonBudget(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(gpuNodes(1, "n1"), gpus("a", 2).Obj()), func(t *testing.T, f *fixture) {
		a := f.mustBegin(newPod("p", uses("a"))).filter()
		require.Equal(t, "cannot allocate all claims: claim default/a request gpu: 1 device matches: 2 asked", a.reasons["n1"])
		c, err := cycleOf(a.state)
		require.NoError(t, err)
		c.reasons.Spent.Store(int64(nodes.Budget) + 1)
		a.filter()
		require.Equal(t, "cannot allocate all claims: claim default/a: no devices for this on the node; other nodes like this one say why", a.reasons["n1"])
	})
}
