package guard

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// TestTwoGuardsRegisterInTurn: the one that decides is asked, at its own address, and all that it does
// not know of its predecessor it finds out.
func TestTwoGuardsRegisterInTurn(t *testing.T) {
	g, s := installGuards(t, admissionregistrationv1.Fail), newTenant(t, "in-turn", 2)
	first := g.start()
	require.Equal(t, first, g.decider())
	s.guarded()
	second := g.start()
	require.Error(t, harness.GuardDecides(t.Context(), second))
	require.NoError(t, cluster.GuardIsAsked(t.Context(), first))
	s.claims("x", "y")
	require.NoError(t, s.allocate(t.Context(), "x", "gpu-0"))

	require.NoError(t, first.Stop())
	require.Equal(t, second, g.decider())
	s.deniedWhatIsHeld()
	require.NoError(t, first.Restart(t.Context()))
	require.Error(t, harness.GuardDecides(t.Context(), first))
	require.NoError(t, second.Stop())
	require.Equal(t, first, g.decider())
	s.deniedWhatIsHeld()

	webhook, err := g.webhook(t.Context())
	require.NoError(t, err)
	require.Equal(t, admissionregistrationv1.Fail, *webhook.FailurePolicy)
	require.NoError(t, s.release(t.Context(), "x"))
}

// deniedWhatIsHeld waits for the guard's denial of what claim x has, and its permission for the rest.
func (s *tenant) deniedWhatIsHeld() {
	s.T.Helper()
	s.Eventually("have the guard deny what claim x has", func(ctx context.Context) error { return isDenied(s.allocate(ctx, "y", "gpu-0")) })
	require.NoError(s.T, s.allocate(s.T.Context(), "y", "gpu-1"))
	require.NoError(s.T, s.release(s.T.Context(), "y"))
}
