package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const us, them, duration = "us", "them", 15 * time.Second

// fakeLock is a lease on a server.
type fakeLock struct {
	resourcelock.Interface
	holder string
	err    error
	// takes is the time that a request takes.
	takes func()
}

func (f *fakeLock) Identity() string { return us }

func (f *fakeLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &resourcelock.LeaderElectionRecord{HolderIdentity: f.holder}, nil, f.err
}

func (f *fakeLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return f.Update(ctx, record)
}

func (f *fakeLock) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	if f.takes(); f.err == nil {
		f.holder = record.HolderIdentity
	}
	return f.err
}

// world is a process with a lease, and a clock.
type world struct {
	Lease
	server fakeLock
	lock   resourcelock.Interface
	time   time.Time
}

func newWorld() *world {
	w := &world{time: time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)}
	w.now = worldClock{w}
	w.server.takes = func() {}
	w.lock = w.Follow(&w.server, duration)
	return w
}

func (w *world) renew() error {
	return w.lock.Update(context.Background(), resourcelock.LeaderElectionRecord{HolderIdentity: us})
}

// worldClock is the clock of a world.
type worldClock struct{ *world }

func (c worldClock) Now() time.Time                  { return c.time }
func (c worldClock) Since(t time.Time) time.Duration { return c.time.Sub(t) }

func (w *world) pass(d time.Duration) { w.time = w.time.Add(d) }

func TestWithoutElection(t *testing.T) {
	var l Lease
	require.NoError(t, l.Leads())
	require.False(t, l.Followed())
}

func TestStandbyDoesNotLead(t *testing.T) {
	w := newWorld()
	require.True(t, w.Followed())
	require.ErrorIs(t, w.Leads(), ErrNotLeading)
	w.server.holder = them
	_, _, err := w.lock.Get(t.Context())
	require.NoError(t, err)
	require.ErrorContains(t, w.Leads(), "never elected")
	w.server.err = errors.New("refused")
	require.Error(t, w.renew())
	require.ErrorIs(t, w.Leads(), ErrNotLeading)
}

// A process that was stopped notices without any request that its lease has expired.
func TestLeaseExpires(t *testing.T) {
	w := newWorld()
	began := w.time
	w.server.takes = func() { w.pass(5 * time.Second) }
	require.NoError(t, w.renew())
	require.NoError(t, w.Leads())
	w.pass(9 * time.Second)
	require.NoError(t, w.Leads())
	w.pass(time.Second)
	require.ErrorIs(t, w.Leads(), ErrNotLeading, "it counts from when the request was sent")
	require.Equal(t, began, w.Since())

	begins := w.time
	require.NoError(t, w.renew())
	require.NoError(t, w.Leads())
	require.Equal(t, begins, w.Since(), "somebody else may have led in between")
	w.pass(7 * time.Second)
	require.NoError(t, w.renew())
	require.Equal(t, begins, w.Since())
}

// Nobody waits for the lease of a process that leads, or of one without election.
func TestAwaitWhileLeading(t *testing.T) {
	require.NoError(t, new(Lease).Await(t.Context()))
	w := newWorld()
	require.NoError(t, w.renew())
	require.NoError(t, w.Await(t.Context()))
}

// A process that does not lead waits until it does, whatever it learns about its lease before.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		require.NoError(t, w.renew())
		w.pass(duration)
		ended := make(chan error, 1)
		go func() { ended <- w.Await(t.Context()) }()
		waits := func() {
			t.Helper()
			synctest.Wait()
			require.Empty(t, ended)
		}
		waits()
		w.server.holder = them
		_, _, err := w.lock.Get(t.Context())
		require.NoError(t, err)
		waits()
		w.server.err = errors.New("refused")
		require.Error(t, w.renew())
		waits()
		w.server.err = nil
		require.NoError(t, w.renew())
		require.ErrorIs(t, <-ended, ErrNotLeading)
		require.NoError(t, w.Await(t.Context()))
	})
}

// A process that ends does not wait any more.
func TestAwaitUntilTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, newWorld().Await(ctx), ErrNotLeading)
}

func TestLeaseIsReleasedOrLost(t *testing.T) {
	for name, end := range map[string]func(*world) error{
		"released": func(w *world) error { return w.lock.Update(context.Background(), resourcelock.LeaderElectionRecord{}) },
		"lost": func(w *world) error {
			w.server.holder = them
			_, _, err := w.lock.Get(context.Background())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			require.NoError(t, w.lock.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: us}))
			require.NoError(t, w.Leads())
			require.NoError(t, end(w))
			require.ErrorIs(t, w.Leads(), ErrNotLeading)
		})
	}
}

// A process that gives its lease back does not know when another one gets it: before the answer arrives, or if no
// answer arrives.
func TestLeaseIsGivenBack(t *testing.T) {
	w := newWorld()
	require.NoError(t, w.renew())
	began := w.time
	w.server.takes = func() { require.ErrorIs(t, w.Leads(), ErrNotLeading) }
	w.server.err = errors.New("the connection is gone")
	require.Error(t, w.lock.Update(context.Background(), resourcelock.LeaderElectionRecord{}))
	require.ErrorIs(t, w.Leads(), ErrNotLeading)

	w.server.takes, w.server.err = func() {}, nil
	w.pass(time.Second)
	require.NoError(t, w.renew())
	require.NoError(t, w.Leads())
	require.NotEqual(t, began, w.Since(), "somebody else may have led in between")
}

// A process that finds no lease does not know who held one meanwhile: its own lease is over, even if the answer to its
// request is lost.
func TestLeaseIsDeleted(t *testing.T) {
	w := newWorld()
	require.NoError(t, w.renew())
	began := w.time
	w.pass(time.Second)
	w.server.takes = func() { require.ErrorIs(t, w.Leads(), ErrNotLeading) }
	create := func() error {
		return w.lock.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: us})
	}
	require.NoError(t, create())
	require.NoError(t, w.Leads())
	require.Equal(t, began.Add(time.Second), w.Since())

	w.pass(time.Second)
	w.server.err = errors.New("the answer is lost")
	require.Error(t, create())
	w.server.takes, w.server.err = func() {}, nil
	require.NoError(t, w.renew())
	require.Equal(t, began.Add(2*time.Second), w.Since())
}

// Other replicas see only the second of a record's renewal, and count from when they first see it.
func TestLeaseLastsFromTheSecondShown(t *testing.T) {
	w := newWorld()
	renew := func(made time.Time) {
		t.Helper()
		record := resourcelock.LeaderElectionRecord{HolderIdentity: us, RenewTime: metav1.NewTime(made)}
		require.NoError(t, w.lock.Update(context.Background(), record))
	}
	renew(w.time)
	w.pass(900 * time.Millisecond)
	renew(w.time)
	w.pass(duration - time.Second)
	require.NoError(t, w.Leads())
	w.pass(100 * time.Millisecond)
	require.ErrorIs(t, w.Leads(), ErrNotLeading, "to others, the second record was the first one")

	// The answer to the first request was lost; the second one shows the same.
	made := w.time
	renew(made)
	w.pass(5 * time.Second)
	renew(made)
	w.pass(duration - 5*time.Second)
	require.ErrorIs(t, w.Leads(), ErrNotLeading)

	// Two tenures of one process in the same second are distinct.
	renew(w.time)
	before := w.Since()
	w.pass(100 * time.Millisecond)
	require.NoError(t, w.lock.Update(context.Background(), resourcelock.LeaderElectionRecord{}))
	renew(w.time)
	require.NoError(t, w.Leads())
	require.NotEqual(t, before, w.Since())
}

func TestLeaseLastsWholeSeconds(t *testing.T) {
	w := newWorld()
	w.lock = w.Follow(&w.server, 2900*time.Millisecond)
	require.NoError(t, w.renew())
	w.pass(1999 * time.Millisecond)
	require.NoError(t, w.Leads())
	w.pass(time.Millisecond)
	require.ErrorIs(t, w.Leads(), ErrNotLeading)
}
