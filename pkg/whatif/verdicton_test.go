package whatif_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// VerdictOn returns the same verdict as FitOn.
func TestVerdictOn(t *testing.T) {
	o := cluster(3, 2)
	holding(&o, "holder", "node-0001", "gpu-0")
	o.Nodes[2].Spec.Unschedulable = true
	few := whatif.New(cluster(1, 2), whatif.Options{StepBudget: 1})
	s := whatif.New(o, whatif.Options{})
	for name, test := range map[string]struct {
		world          *whatif.Snapshot
		template, node string
		want           whatif.Verdict
	}{
		"fits":           {s, "two", "node-0000", whatif.Fits},
		"held":           {s, "two", "node-0001", whatif.DoesNotFit},
		"cordoned":       {s, "two", "node-0002", whatif.DoesNotFit},
		"no such node":   {s, "two", "nowhere", whatif.DoesNotFit},
		"no template":    {s, "none", "node-0000", whatif.DoesNotFit},
		"search gave up": {few, "two", "node-0000", whatif.CannotTell},
	} {
		t.Run(name, func(t *testing.T) {
			verdict, err := test.world.VerdictOn(t.Context(), user("a", test.template), test.node)
			require.NoError(t, err)
			assert.Equal(t, test.want, verdict)
			answer, err := test.world.FitOn(t.Context(), user("a", test.template), test.node)
			require.NoError(t, err)
			assert.Equal(t, test.want, answer.Verdict)
		})
	}
	_, err := s.VerdictOn(t.Context(), o.Pods[0], "node-0000")
	require.ErrorContains(t, err, "already")
}
