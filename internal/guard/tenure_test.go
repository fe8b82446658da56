package guard

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// newSuccessor is a deputy that has got the Lease again, and so does not decide.
func newSuccessor(t *testing.T) *deputy {
	t.Helper()
	d := newDeputy(t)
	d.lose()
	d.acquire()
	require.False(t, d.Decides())
	return d
}

func TestTakeOver(t *testing.T) {
	t.Parallel()
	s := newClaimServer(empty("waiting"), b.Claim("allocated").Allocated("a", "gpu-0"), empty("deleted"))
	d := newSuccessor(t)
	d.shows(s.claims["allocated"])
	d.shows(s.claims["waiting"])
	s.stored = d.shows
	s.beforeUpdate = func(name string) error {
		if name == "deleted" {
			s.remove(name)
		}
		return nil
	}
	require.NoError(t, d.TakeOver(t.Context(), d.Lease.Since(), s.Fencer, d.ledger))
	require.True(t, d.Decides())
	require.Equal(t, 1, s.written, "what is allocated is not written to")
	require.Equal(t, Denied, d.decide(900, b.Claim("x").Allocated("a", "gpu-0")).Kind)
}

// The deletion of a claim may be all there is to see of it.
func TestTakeOverOfClaimsThatGo(t *testing.T) {
	t.Parallel()
	s := newClaimServer(empty("gone"))
	s.stored = func(*resourceapi.ResourceClaim) { delete(s.claims, "gone") }
	d := newSuccessor(t)
	require.NoError(t, d.TakeOver(t.Context(), d.Lease.Since(), s.Fencer, d.ledger))
	require.True(t, d.Decides())
	require.Equal(t, 1, s.written)
}

func TestTakeOverEndsWithTheLease(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*claimServer){
		"no claim can be written to":     func(s *claimServer) { s.beforeUpdate = unreachable },
		"the watch of claims is missing": func(*claimServer) {},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		s := newClaimServer(empty("x"))
		prepare(s)
		d := newSuccessor(t)
		ended := make(chan error)
		go func() { ended <- d.TakeOver(ctx, d.Lease.Since(), s.Fencer, d.ledger) }()
		cancel()
		require.Error(t, <-ended, name)
		require.False(t, d.Decides(), name)
	}
}

// A handover that was begun in one tenure is none for the next.
func TestTakeOverOfAnotherTenure(t *testing.T) {
	t.Parallel()
	s := newClaimServer(empty("x"))
	d := newSuccessor(t)
	s.stored = func(claim *resourceapi.ResourceClaim) {
		require.NoError(t, d.followed.Update(t.Context(), resourcelock.LeaderElectionRecord{}))
		d.acquire()
		d.shows(claim)
	}
	require.NoError(t, d.TakeOver(t.Context(), d.Lease.Since(), s.Fencer, d.ledger))
	require.False(t, d.Decides())
}

// What a predecessor has approved may arrive at a claim that cannot be fenced. That is known before
// anything is decided, whatever the watch has shown so far.
func TestLateWriteToAClaimThatCannotBeFenced(t *testing.T) {
	t.Parallel()
	s := newClaimServer(empty("x"))
	bounded, cancel := context.WithCancel(t.Context())
	arrived := ""
	s.beforeUpdate = func(name string) error {
		cancel() // The request timeout is over, and just before that this has arrived.
		arrived = s.arrives(b.Claim("x").Allocated("a", "gpu-0"))
		return refuses(name)
	}
	handover := NewHandover([]Listed{{ClaimRef: refTo(empty("x")), Version: "3"}})
	require.NoError(t, s.fenceWithin(t.Context(), bounded, handover))
	require.Empty(t, handover.ToFence())
	require.Equal(t, map[types.UID]string{"uid-x": arrived}, handover.awaited)
}

// Claims that cannot be fenced do not keep others from being fenced.
func TestOthersAreFencedFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		claims := []*resourceapi.ResourceClaim{empty("last")}
		listed := []Listed{{refTo(empty("last")), "3", false}}
		for i := range 2 * fencers {
			claims = append(claims, empty(fmt.Sprintf("claim-%d", i)))
			listed = append(listed, Listed{refTo(claims[i+1]), "3", false})
		}
		s, ended := newClaimServer(claims...), make(chan error, 1)
		var open atomic.Bool
		s.beforeUpdate = func(name string) error {
			if name == "last" || open.Load() {
				return nil
			}
			return refuses(name)
		}
		go func() { ended <- s.fenceAll(t.Context(), NewHandover(listed)) }()
		synctest.Wait()
		require.Equal(t, 1, s.writes())
		open.Store(true)
		require.NoError(t, <-ended)
		require.Equal(t, 1+2*fencers, s.writes())
	})
}

// All claims that cannot be fenced wait for the same end.
func TestManyClaimsThatCannotBeFenced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var claims []*resourceapi.ResourceClaim
		var listed []Listed
		for i := range 3 * fencers {
			claims = append(claims, empty(fmt.Sprintf("claim-%d", i)))
			listed = append(listed, Listed{refTo(claims[i]), "3", false})
		}
		s := newClaimServer(claims...)
		s.beforeUpdate = refuses
		handover, began := NewHandover(listed), time.Now()
		require.NoError(t, s.fenceAll(t.Context(), handover))
		require.Empty(t, handover.ToFence())
		require.Equal(t, s.RequestTimeout, time.Since(began)) // By the clock of the test, which stands still.
	})
}
