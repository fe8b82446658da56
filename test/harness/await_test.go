package harness

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPollWithoutAnAnswer: what could not be asked in time does not hold.
func TestPollWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	err := Poll(t.Context(), 10*time.Millisecond, func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
