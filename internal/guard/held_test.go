package guard

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// scheduler is a Scheduler that notes what it is told, and keeps what is held for a reason from those without consumers.
type scheduler struct {
	ended func(ledger.ClaimRef, ledger.Freed)
	held  string
}

func (s *scheduler) ApprovalEnded(claim ledger.ClaimRef, freed ledger.Freed) { s.ended(claim, freed) }

func (s *scheduler) HeldFrom(_ ledger.ClaimRef, _ *resourceapi.AllocationResult, consumers []resourceapi.ResourceClaimConsumerReference) string {
	if len(consumers) > 0 {
		return ""
	}
	return s.held
}

// TestHeld: what is held is denied to other schedulers, but not an answer that was given before, and never to our own.
func TestHeld(t *testing.T) {
	t.Parallel()
	w := newBoard(t, node())
	held := &scheduler{ended: func(ledger.ClaimRef, ledger.Freed) {}}
	w.Scheduler = held
	for _, name := range []string{"x", "y"} {
		w.watch(name, at(3, empty(name)))
	}
	w.requireAllowed(3, b.Claim("x").Allocated("a", "gpu-0"))
	held.held = "held for pod default/large"
	w.requireAllowed(3, b.Claim("x").Allocated("a", "gpu-0"))
	y := b.Claim("y").Allocated("a", "gpu-1")
	w.requireDenied("held for pod default/large", 3, y)
	asks := Request{Claim: ledger.RefTo(y), Version: "3", After: y.Status.Allocation, Requests: y.Spec.Devices.Requests, Confirmed: true}
	require.NoError(t, w.ledger.AddInFlight(ledger.RefTo(y), "pod", y.Status.Allocation))
	asks.DryRun = true
	require.Equal(t, Allowed, w.Review(tenure, &asks).Kind, "the scheduler in this process writes it")
	w.ledger.RemoveInFlight("uid-y", "pod")
	require.Equal(t, Denied, w.Review(tenure, &asks).Kind)
	asks.Consumers = []resourceapi.ResourceClaimConsumerReference{{Name: "p"}}
	require.Equal(t, Allowed, w.Review(tenure, &asks).Kind)
}
