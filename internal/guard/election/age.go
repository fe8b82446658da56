package election

import (
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
)

// age tracks the age of the Lease. It is safe for concurrent use.
//
// If a user deletes the Lease, its holder does not notice, and decides until its next attempt to renew it: for at
// most the duration of a Lease. Meanwhile, a process that creates a new Lease, or takes that over from its creator,
// must not decide. So a process decides only when its Lease has existed for its duration. The age counts from the
// time when this process first saw the Lease, by a clock that does not run while the machine is paused and cannot be
// set. Others learn of it from an annotation with the UID of the Lease, which does not match on a copy of the Lease.
type age struct {
	// duration is the duration of a Lease, for all guards.
	duration time.Duration

	mutex sync.Mutex
	uid   types.UID
	seen  time.Time // zero if there was none
	// told is set if another holder has seen the Lease for its duration.
	told bool
}

// see records the Lease that the server has.
func (a *age) see(lease *coordinationv1.Lease) {
	now := time.Now()
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.seen.IsZero() || a.uid != lease.UID {
		a.uid, a.seen, a.told = lease.UID, now, false
	}
	if lease.UID != "" && lease.Annotations[OutlastedAnnotation] == string(lease.UID) {
		a.told = true
	}
}

// left returns the time for which other processes may still believe that they hold an earlier Lease.
func (a *age) left() time.Duration {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	switch {
	case a.told:
		return 0
	case a.seen.IsZero():
		return a.duration
	default:
		return max(0, a.duration-time.Since(a.seen))
	}
}

// outlasted reports whether that time is over for the Lease with a UID.
func (a *age) outlasted(uid types.UID) bool {
	a.mutex.Lock()
	same := a.uid == uid && !a.seen.IsZero()
	a.mutex.Unlock()
	return same && a.left() == 0
}
