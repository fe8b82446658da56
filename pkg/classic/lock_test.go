package classic

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var locks turns
		done, err := locks.take(t.Context(), "a")
		require.NoError(t, err)
		other, err := locks.take(t.Context(), "b")
		require.NoError(t, err, "another claim is another matter")
		other()

		inside, entered := 1, 0
		for range 10 {
			go func() {
				done, err := locks.take(context.Background(), types.UID("a"))
				if err != nil {
					return
				}
				inside++
				if inside == 1 {
					entered++
				}
				inside--
				done()
			}()
		}
		synctest.Wait()
		require.Zero(t, entered)
		gaveUp := errors.New("no time")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gaveUp)
		_, err = locks.take(ctx, "a")
		require.ErrorIs(t, err, gaveUp)
		inside--
		done()
		synctest.Wait()
		require.Equal(t, 10, entered, "one after the other")
		require.Empty(t, locks.claims)
	})
}
