package informer

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// store has a version, or fails.
type store struct {
	mutex   sync.Mutex
	version string
	err     error
}

func (s *store) now(context.Context) (string, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.version, s.err
}

// becomes changes the version that the store has.
func (s *store) becomes(version string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.version = version
}

func TestVersionsWentBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{version: "100"}
		h := &History{Now: s.now}
		ended := make(chan error, 1)
		go func() { ended <- h.Run(t.Context()) }()
		for _, version := range []string{"100", "100", "200"} {
			s.becomes(version)
			time.Sleep(2 * lookInterval)
			synctest.Wait()
			require.NoError(t, h.Known(t.Context()))
			require.Empty(t, ended)
		}
		s.becomes("199")
		time.Sleep(lookInterval)
		err := <-ended
		require.ErrorIs(t, err, ErrWentBack)
		require.ErrorContains(t, err, "was 200, and is 199")
		s.becomes("300")
		require.ErrorIs(t, h.Look(t.Context()), ErrWentBack, "that the store has got there again does not help")
		require.ErrorIs(t, h.Known(t.Context()), ErrWentBack)
	})
}

// A store is restored while its servers are down, so after a failure nothing is known until there is an
// answer.
func TestNothingIsKnownAfterAFailure(t *testing.T) {
	t.Parallel()
	s := &store{version: "100"}
	h := &History{Now: s.now}
	require.NoError(t, h.Look(t.Context()))
	s.err = errors.New("it is down")
	require.NoError(t, h.Known(t.Context()), "nobody has noticed")
	require.ErrorIs(t, h.Look(t.Context()), s.err)
	require.ErrorIs(t, h.Known(t.Context()), s.err)
	s.err = nil
	require.NoError(t, h.Known(t.Context()), "it was down for another reason")
	s.err = errors.New("it is down")
	require.Error(t, h.Look(t.Context()))
	s.version, s.err = "99", nil
	require.ErrorIs(t, h.Known(t.Context()), ErrWentBack)
}

func TestUnknownVersionsTellNothing(t *testing.T) {
	t.Parallel()
	s := &store{version: "100"}
	h := &History{Now: s.now}
	for _, version := range []string{"100", "", "x"} {
		s.version = version
		require.NoError(t, h.Look(t.Context()), version)
	}
	h.Report(ErrWentBack)
	require.ErrorIs(t, h.Look(t.Context()), ErrWentBack, "as somebody else has seen")
}
