package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/bindingcondition"
)

// TestGroupWaitsForConditions: the pods of a group wait for a claim of theirs like others,
// and the last one that gives up clears it.
func TestGroupWaitsForConditions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		report string
		fails  error
	}{
		"ready": {report: attached}, "failure": {report: broken, fails: bindingcondition.ErrFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods, objects := members(2, uses("c"))
			inGang(t, newPodGroup("c"), plus(fabricNodes("n1"), plus(objects, gpus("c", 1).Obj())...), func(t *testing.T, g *gang) {
				require.Empty(t, g.try(pods...))
				results := make(chan *fwk.Status, len(pods))
				for i := range pods {
					require.NoError(t, g.reserve(i).AsError())
					go func() { results <- g.preBind(i) }()
				}
				g.settle()
				require.Empty(t, results, "not attached")
				require.Equal(t, []string{"gang"}, consumerNames(g.claim("c")))
				g.changeClaim("c", report(test.report))
				g.settle()
				require.Len(t, results, len(pods))
				for range pods {
					require.ErrorIs(t, (<-results).AsError(), test.fails)
				}
				require.Equal(t, test.fails == nil, g.claim("c").Status.Allocation != nil)
				require.Equal(t, test.fails == nil, len(g.claim("c").Status.ReservedFor) == 1)
				if test.fails == nil {
					g.bind(0)
					g.bind(1)
				}
				require.True(t, g.pl.groups.Empty())
			})
		})
	}
}
