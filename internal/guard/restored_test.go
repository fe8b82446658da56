package guard

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// A request based on an old version is allowed, because the server refuses the write. After a restore of etcd from a
// backup, that version is the server's, and the write would be stored.
func TestClaimWentBack(t *testing.T) {
	t.Parallel()
	d := newDeputy(t)
	d.shows(at(3, requesting("x")))
	d.shows(at(8, b.Claim("x").Allocated("a", "gpu-0")))
	answer := d.decide(3, b.Claim("x").Allocated("a", "gpu-1"))
	require.Equal(t, NotDeciding, answer.Kind)
	require.Contains(t, answer.Reason, "claim default/x had version 8, and has 3")
	require.ErrorIs(t, d.History.Look(t.Context()), informer.ErrWentBack, "the process is to start over")
	answer = d.decide(3, b.Claim("y").Allocated("a", "gpu-1"))
	require.Equal(t, NotDeciding, answer.Kind, "it knows nothing of other claims either")
}

// The server that has asked may only be behind.
func TestServerIsBehind(t *testing.T) {
	t.Parallel()
	d := newDeputy(t)
	s := newClaimServer(requesting("x"))
	d.Lookup = NewLookup(s.Claims)
	s.arrives(b.Claim("x").Allocated("a", "gpu-0"))
	d.shows(s.claims["x"].DeepCopy())
	require.Equal(t, Allowed, d.decide(3, b.Claim("x").Allocated("a", "gpu-1")).Kind)
	require.NoError(t, d.History.Known(t.Context()))
}

// etcd is restored while no server answers.
func TestNothingIsAllowedUntilTheServerAnswersAgain(t *testing.T) {
	t.Parallel()
	d := newDeputy(t)
	version, down := "8", errors.New("it is down")
	d.History.Now = func(context.Context) (string, error) { return version, down }
	require.Error(t, d.History.Look(t.Context()))
	d.requireDenies("whether its store was restored from a backup", 3, b.Claim("x").Allocated("a", "gpu-1"))
	down = nil
	require.Equal(t, Allowed, d.decide(3, b.Claim("x").Allocated("a", "gpu-1")).Kind)
	down = errors.New("it is down")
	require.Error(t, d.History.Look(t.Context()))
	version, down = "7", nil
	require.Equal(t, NotDeciding, d.decide(3, b.Claim("y").Allocated("a", "gpu-0")).Kind)
}
