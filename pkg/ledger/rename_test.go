package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestRename follows a claim that is put in flight before it exists.
func TestRename(t *testing.T) {
	t.Parallel()
	l := ledger.New()
	planned, created := b.Claim("planned").Allocated("a", "gpu-0"), b.Claim("created").Obj()
	require.NoError(t, l.AddInFlight(ledger.RefTo(planned), "pod", planned.Status.Allocation))
	refresh(l, "created", versioned(created, 1)) // The informer was faster than the answer.
	_, before, _ := l.Changed.Since(0)

	l.Rename("uid-planned", ledger.RefTo(created))
	require.Equal(t, []string{"gpu-0: created"}, holders(l, "a"), "one holder")
	require.Nil(t, l.InFlight("uid-planned"))
	require.Same(t, planned.Status.Allocation, l.InFlight("uid-created"))
	require.Len(t, l.UseOf("uid-created").InFlight, 1)
	changed, _, _ := l.Changed.Since(before)
	require.Len(t, changed, 1, "whoever follows the ledger hears of it")
	l.Rename("uid-planned", ledger.RefTo(created))
	require.Equal(t, 1, l.InFlightCount(), "nothing left to rename")

	other := b.Claim("other").Allocated("a", "gpu-0")
	require.ErrorContains(t, l.AddInFlight(ledger.RefTo(other), "pod-2", other.Status.Allocation), "holds it by now")

	l.Observe(versioned(b.Claim("created").Allocated("a", "gpu-0"), 2))
	l.RemoveInFlight("uid-created", "pod")
	require.Equal(t, []string{"gpu-0: created"}, holders(l, "a"), "committed now")
	l.Observe(versioned(created, 3))
	require.Empty(t, holders(l, "a"), "nothing is left of it")
}

// TestRenameToAllocatedClaim: a claim of that name was there and is allocated otherwise.
func TestRenameToAllocatedClaim(t *testing.T) {
	t.Parallel()
	l := ledger.New()
	planned := b.Claim("planned").Allocated("a", "gpu-0")
	require.NoError(t, l.AddInFlight(ledger.RefTo(planned), "pod", planned.Status.Allocation))
	existing := versioned(b.Claim("existing").Allocated("a", "gpu-1"), 1)
	refresh(l, "existing", existing)
	l.Rename("uid-planned", ledger.RefTo(existing))
	require.Equal(t, []string{"gpu-0: existing", "gpu-1: existing"}, holders(l, "a"), "the planned one may be written after all")
	l.RemoveInFlight("uid-existing", "pod")
	require.Equal(t, []string{"gpu-1: existing"}, holders(l, "a"))
	require.Zero(t, l.InFlightCount())
}

func TestRenameOfNothing(t *testing.T) {
	t.Parallel()
	l := ledger.New()
	l.Rename("uid-x", ledger.RefTo(b.Claim("y").Obj()))
	require.Zero(t, l.InFlightCount())
}
