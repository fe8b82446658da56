package election

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// link is one process's connection to the server.
type link struct {
	coordinationclient.LeaseInterface
	down atomic.Bool
	// loses is set if answers to Create do not arrive.
	loses bool
}

var errDown = errors.New("the connection is down")

func (l *link) Leases(string) coordinationclient.LeaseInterface { return l }

func (l *link) Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error) {
	if l.down.Load() {
		return nil, errDown
	}
	return l.LeaseInterface.Get(ctx, name, o)
}

func (l *link) Create(ctx context.Context, lease *coordinationv1.Lease, o metav1.CreateOptions) (*coordinationv1.Lease, error) {
	if l.down.Load() {
		return nil, errDown
	}
	lease, err := l.LeaseInterface.Create(ctx, lease, o)
	if l.loses {
		return nil, errDown
	}
	return lease, err
}

func (l *link) Update(ctx context.Context, lease *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if l.down.Load() {
		return nil, errDown
	}
	return l.LeaseInterface.Update(ctx, lease, o)
}

// linked is a candidate with a connection that can be cut, and with a Lease of a quarter of a minute.
func linked(s *leaseServer, identity string) (*candidate, *link) {
	c, l := newCandidate(s, identity), &link{LeaseInterface: s}
	c.Leases = l
	c.Config.LeaseDuration.Duration, c.Config.RenewDeadline.Duration, c.Config.RetryPeriod.Duration = 15*time.Second, 14*time.Second, 2*time.Second
	return c, l
}

// watch looks all the time for as long as is said that no two of them decide, and reports which one does
// in the end, -1 for none.
func watch(t *testing.T, duration time.Duration, candidates ...*candidate) int {
	t.Helper()
	decides := -1
	for end := time.Now().Add(duration); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		synctest.Wait()
		decides = -1
		for i, c := range candidates {
			if c.Decides() {
				require.Equal(t, -1, decides, "two guards decide")
				decides = i
			}
		}
	}
	return decides
}

// awaitRenewal returns when the Lease has just been renewed, not when it was at some time before.
func (s *leaseServer) awaitRenewal() {
	select {
	case <-s.renewed:
	default:
	}
	<-s.renewed
	synctest.Wait()
}

// TestDeletedLease: a user deletes the Lease while its holder decides. A process that creates a new one must not
// decide while the holder of the old one may, whether or not that notices.
func TestDeletedLease(t *testing.T) {
	t.Parallel()
	for name, history := range map[string]func(t *testing.T, s *leaseServer, old, heir *candidate, connection *link){
		"the holder notices": func(t *testing.T, s *leaseServer, old, heir *candidate, _ *link) {
			s.deletes()
			heir.run(t)
			require.Equal(t, 1, watch(t, time.Minute, old, heir))
		},
		"the holder is cut off": func(t *testing.T, s *leaseServer, old, heir *candidate, connection *link) {
			connection.down.Store(true)
			s.deletes()
			heir.run(t)
			require.Equal(t, 1, watch(t, time.Minute, old, heir))
		},
		"the one who has made it gives it to another one": func(t *testing.T, s *leaseServer, old, heir *candidate, connection *link) {
			connection.down.Store(true)
			s.deletes()
			stop := heir.run(t)
			require.Equal(t, 0, watch(t, time.Second, old, heir))
			stop()
			third, _ := linked(s, "third")
			third.run(t)
			require.Equal(t, 2, watch(t, time.Minute, old, heir, third))
		},
		"it is a copy": func(t *testing.T, s *leaseServer, old, heir *candidate, connection *link) {
			connection.down.Store(true)
			s.mutex.Lock()
			s.made(s.lease)
			s.mutex.Unlock()
			s.holds("")
			heir.run(t)
			require.Equal(t, 1, watch(t, time.Minute, old, heir))
		},
		"the answer to the one who makes it is lost": func(t *testing.T, s *leaseServer, old, heir *candidate, connection *link) {
			connection.down.Store(true)
			s.deletes()
			lossy, answers := linked(s, "lossy")
			answers.loses = true
			lossy.run(t)
			require.Equal(t, 2, watch(t, time.Minute, old, heir, lossy))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newLeaseServer()
				old, connection := linked(s, "old")
				heir, _ := linked(s, "heir")
				old.run(t)
				require.Equal(t, 0, watch(t, 4*time.Second, old))
				s.awaitRenewal() // The next one is in two seconds.
				history(t, s, old, heir, connection)
			})
		})
	}
}

// TestOldLease: who gets the Lease in the usual way decides at once, also if it has just been started.
func TestOldLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newLeaseServer()
		s.deletes()
		first, _ := linked(s, "first")
		stop := first.run(t)
		require.Equal(t, -1, watch(t, 14*time.Second, first))
		require.Equal(t, 0, watch(t, 4*time.Second, first))
		stop()
		second, _ := linked(s, "second")
		second.run(t)
		require.Equal(t, 1, watch(t, time.Second, first, second))
	})
}
