// Package lease tracks whether this process is the leader among the replicas of a scheduler.
//
// kube-scheduler's plugins run in every replica: their informers start, and bring events, before any replica is
// elected. And a process that was stopped for a while (SIGSTOP, a paused machine) continues as if it still led, until
// its next attempt to renew the lease. So code that may write only as the leader has to check the lease, against the
// clock.
//
// The information comes from the lock of the election itself, which Follow wraps.
package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// ErrNotLeading is the reason why a process must not act (any more).
var ErrNotLeading = errors.New("this process is not the leader")

// Leadership says whether this process leads.
type Leadership interface {
	// Leads returns why this process must not act, nil if it leads.
	Leads() error
}

// A Lease holds the state of this process's own lease. The zero value belongs to a process without election. It is safe
// for concurrent use.
type Lease struct {
	// now has the time in tests; nil stands for the real clock.
	now clock.PassiveClock

	mutex    sync.Mutex
	followed bool
	duration time.Duration
	// since is the time when the process got the lease that it holds or held last. renewed is the earliest time from
	// which other replicas may count the lease's duration; see shown. Both are zero if the process never held the
	// lease.
	since, renewed time.Time
	// lost is set if another replica is known to hold the lease.
	lost bool
	// news is closed at the next request about the lease, nil if nobody waits for that.
	news chan struct{}
}

type contextKey struct{}

// NewContext returns a context with the lease of a scheduler, for its plugins.
func NewContext(ctx context.Context, lease *Lease) context.Context {
	return context.WithValue(ctx, contextKey{}, lease)
}

// Of returns the lease of the scheduler whose context this is, or a Lease without election.
func Of(ctx context.Context) *Lease {
	if lease, ok := ctx.Value(contextKey{}).(*Lease); ok {
		return lease
	}
	return new(Lease)
}

// Follow returns a lock to use in place of the given one. duration is the lease's duration; other replicas see only its
// whole seconds.
func (l *Lease) Follow(lock resourcelock.Interface, duration time.Duration) resourcelock.Interface {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.followed, l.duration = true, duration.Truncate(time.Second)
	return &followedLock{lock, l}
}

// Followed reports whether there is an election at all.
func (l *Lease) Followed() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.followed
}

// Leads returns nil if this process leads, or if there is no election; otherwise an error that wraps ErrNotLeading. The
// process leads as long as no other replica can have the lease: until the duration has passed since the earliest time
// from which others may count (see shown).
func (l *Lease) Leads() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	switch now := l.clock(); {
	case !l.followed, l.isValid(now):
		return nil
	case l.renewed.IsZero():
		return fmt.Errorf("%w: it was never elected", ErrNotLeading)
	default:
		return fmt.Errorf("%w: its lease was renewed %s ago for the last time and lasts %s", ErrNotLeading,
			Elapsed(l.renewed, now).Round(time.Millisecond), l.duration)
	}
}

// Await returns nil if Leads does. Otherwise it waits until the process leads again or the context ends, and returns why it had
// to wait: what the caller knew before may be old by then.
func (l *Lease) Await(ctx context.Context) error {
	why := l.Leads()
	for err := why; err != nil && ctx.Err() == nil; {
		news := l.next() // First, so that no news is missed.
		if err = l.Leads(); err == nil {
			break
		}
		select {
		case <-news:
		case <-ctx.Done():
		}
	}
	return why
}

// next returns a channel that is closed at the next request about the lease.
func (l *Lease) next() <-chan struct{} {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.news == nil {
		l.news = make(chan struct{})
	}
	return l.news
}

// Since returns the time when this process began to lead: before that, another one may have sent requests. It is zero
// if the process never led.
func (l *Lease) Since() time.Time {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.since
}

func (l *Lease) clock() time.Time {
	if l.now != nil {
		return l.now.Now()
	}
	return time.Now()
}

func (l *Lease) isValid(now time.Time) bool {
	return !l.renewed.IsZero() && !l.lost && Elapsed(l.renewed, now) < l.duration
}

// Elapsed returns the time between two moments, by the clock that shows more: the monotonic clock may stop while a
// machine is paused, and the wall clock may be set back. Use it for rights that end some time after from.
func Elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// held updates the lease after a request that was sent at the given time. byUs says whether this process has the lease.
// If the request renewed it, its duration counts from shown.
func (l *Lease) held(byUs, renewed bool, sent, shown time.Time) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.news != nil {
		close(l.news)
		l.news = nil
	}
	switch {
	case !byUs:
		l.lost = true
	case renewed:
		if !l.isValid(sent) {
			l.since = sent
		}
		l.renewed, l.lost = shown, false
	}
}

// shown returns the earliest time from which other replicas may count the duration of a record written at the given
// time. They count from when they first see it. To them, records differ only by the whole seconds of RenewTime. So a
// record looks unchanged if an earlier one has the same second (it may have been stored although the answer was an
// error), or if RenewTime is earlier than the time of sending.
func shown(record resourcelock.LeaderElectionRecord, sent time.Time) time.Time {
	if made := record.RenewTime.Time; !made.IsZero() && made.Before(sent) {
		sent = made
	}
	return sent.Add(-time.Duration(sent.Nanosecond())) // Truncate would drop the monotonic clock.
}

// A followedLock updates a Lease with the results of the lock.
type followedLock struct {
	resourcelock.Interface
	lease *Lease
}

// Get implements resourcelock.Interface.
func (f *followedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := f.Interface.Get(ctx)
	if err == nil {
		f.lease.held(record.HolderIdentity == f.Identity(), false, time.Time{}, time.Time{})
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
//
// The leader election calls it if the lease does not exist, so it was deleted. Other replicas may have held and deleted
// it since: this process has lost its lease.
func (f *followedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	f.lease.held(false, false, time.Time{}, time.Time{})
	return f.write(ctx, record, f.Interface.Create)
}

// Update implements resourcelock.Interface.
func (f *followedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return f.write(ctx, record, f.Interface.Update)
}

func (f *followedLock) write(ctx context.Context, record resourcelock.LeaderElectionRecord, write func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	byUs, sent := record.HolderIdentity == f.Identity(), f.lease.clock()
	if !byUs {
		// This process gives the lease back: another replica may get it before the answer arrives, or even if no answer
		// arrives.
		f.lease.held(false, false, time.Time{}, time.Time{})
	}
	err := write(ctx, record)
	if err == nil && byUs {
		f.lease.held(true, true, sent, shown(record, sent))
	}
	return err
}
