// Package leadership knows whether this process leads, of several replicas of a scheduler.
//
// kube-scheduler's plugins run in every replica: their informers start, and bring events, before
// anybody has been elected. And a process that was stopped for a while (SIGSTOP, a paused
// machine) goes on where it was, as the leader that it is not any more, until its next attempt
// to renew the lease. So whoever writes on the strength of being the leader has to ask, and ask
// the clock.
//
// What is known comes from the lock of the election itself, which Follow wraps.
package leadership

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// ErrNotLeading is why something must not be done (any more).
var ErrNotLeading = errors.New("this process is not the leader")

// Lease is what a process knows of its own lease. The zero value is that of a process without
// election. It is safe for concurrent use.
type Lease struct {
	// now is time.Now unless a test has its own.
	now func() time.Time

	mutex    sync.Mutex
	followed bool
	duration time.Duration
	// since is when the process got the lease that it holds or held last, renewed when others
	// began to count, as early as that can be, see shown. Both are zero if it never held one.
	since, renewed time.Time
	// lost is set if the lease is known to be somebody else's.
	lost bool
}

type contextKey struct{}

// NewContext returns a context from which Of returns the lease: the one of a scheduler, for its plugins.
func NewContext(ctx context.Context, lease *Lease) context.Context {
	return context.WithValue(ctx, contextKey{}, lease)
}

// Of returns the lease of the scheduler whose context this is, or that of a process without election.
func Of(ctx context.Context) *Lease {
	if lease, ok := ctx.Value(contextKey{}).(*Lease); ok {
		return lease
	}
	return new(Lease)
}

// Follow returns a lock to be used in place of the given one. duration is that of the lease, of which
// others see the whole seconds.
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

// Leads returns nil if this process leads, or if there is no election; otherwise an error that
// is ErrNotLeading. It leads as long as nobody else can have got the lease: until the lease has
// expired, counted from the earliest time from which others may count, see shown.
func (l *Lease) Leads() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	switch now := l.clock(); {
	case !l.followed, l.isValid(now):
		return nil
	case l.renewed.IsZero():
		return fmt.Errorf("%w: it was never elected", ErrNotLeading)
	default:
		return fmt.Errorf("%w: its lease was renewed %s ago for the last time, and lasts %s", ErrNotLeading,
			Elapsed(l.renewed, now).Round(time.Millisecond), l.duration)
	}
}

// Since returns when this process began to lead: before that, another one may have sent
// requests. It is zero if it never led.
func (l *Lease) Since() time.Time {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.since
}

func (l *Lease) clock() time.Time {
	if l.now != nil {
		return l.now()
	}
	return time.Now()
}

func (l *Lease) isValid(now time.Time) bool {
	return !l.renewed.IsZero() && !l.lost && Elapsed(l.renewed, now) < l.duration
}

// Elapsed is the time between two moments, by the clock that shows more: one of them may stop
// while a machine is paused, the other may be set back. It is for those whose right ends some time after
// the first one.
func Elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// held notes who has the lease, as of a request that was sent at the given time. If that has renewed
// it, it lasts from shown on.
func (l *Lease) held(byUs, renewed bool, sent, shown time.Time) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
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

// shown is when others may have begun to count for a record that is written at the given time. They
// count from when they first see it, and to them, records differ only by the whole seconds of their
// renewal: one that has been written before in the same second (which may have been stored
// although the answer was an error), or that was made earlier than it is sent, is nothing new.
func shown(record resourcelock.LeaderElectionRecord, sent time.Time) time.Time {
	if made := record.RenewTime.Time; !made.IsZero() && made.Before(sent) {
		sent = made
	}
	return sent.Add(-time.Duration(sent.Nanosecond())) // Truncate would drop the monotonic clock.
}

// followedLock tells a Lease what becomes of it.
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
// That there is nothing to update says that somebody has deleted the lease. Others may have had
// it since, and may have deleted it as well: what this process has had is over.
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
		// Somebody else may get a lease that is given back before the answer is here, or if it
		// never comes.
		f.lease.held(false, false, time.Time{}, time.Time{})
	}
	err := write(ctx, record)
	if err == nil && byUs {
		f.lease.held(true, true, sent, shown(record, sent))
	}
	return err
}
