package write

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// permission is a Permission that a function gives.
type permission func() error

func (p permission) Leads() error { return p() }

// A process that was stopped and has lost its lease goes on where it was. What it decided
// before is refused by the server, because the next leader has written since. It must not look
// again and then write what fits.
func TestWriteWithoutPermission(t *testing.T) {
	t.Parallel()
	lost := errors.New("not leading")
	s, client := startServer(t, newClaim())
	w, _ := newTestWriter(client)
	writes := 0
	w.Permission = permission(func() error {
		if writes++; writes > 1 {
			return lost
		}
		return nil
	})
	_, err := w.Bind(context.Background(), newClaim(), newAllocation("gpu-0"), consumer("me"))
	require.ErrorIs(t, err, lost)
	require.NotContains(t, strings.Join(s.requests, ", "), "update/status", "only the finalizer was written")

	_, err = w.Create(context.Background(), newClaim())
	require.ErrorIs(t, err, lost)
}
