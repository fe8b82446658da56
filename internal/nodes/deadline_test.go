package nodes

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLimitedContext(t *testing.T) {
	t.Parallel()
	outer, cancel := context.WithCancel(t.Context())
	hour := time.Now().Add(time.Hour)
	ctx := &limited{outer, hour}
	require.NoError(t, ctx.Err())
	deadline, found := ctx.Deadline()
	require.True(t, found)
	require.Equal(t, hour, deadline)

	ctx.deadline = time.Now().Add(-time.Hour)
	require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
	require.ErrorIs(t, context.Cause(ctx), context.DeadlineExceeded)
	cancel()
	require.ErrorIs(t, ctx.Err(), context.Canceled, "that was asked for from outside")

	sooner, cancelSooner := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancelSooner()
	deadline, _ = (&limited{sooner, hour}).Deadline()
	require.Equal(t, time.Unix(1, 0), deadline)
}
