package election

import (
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
)

// age is what a process knows of the age of the Lease. It is safe for concurrent use.
//
// If somebody deletes the Lease, its holder does not know, and decides on until its next attempt
// to renew it: for the duration of a Lease at most. Who makes a new one, or gets that from who has
// made it, must not decide meanwhile. So nobody decides on the strength of a Lease before it has
// existed for its duration. That is counted from when this process has first seen it, by a clock that
// does not run while the machine is paused and cannot be set; and told to others by an annotation with
// the UID of the Lease, which a copy of it does not have.
type age struct {
	// duration is that of a Lease, for all guards.
	duration time.Duration

	mutex sync.Mutex
	uid   types.UID
	seen  time.Time // zero if there was none
	// told is set if another holder has seen it for so long.
	told bool
}

// see notes what the server has.
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

// left is how long others may yet believe that they have an earlier Lease.
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

// outlasted reports whether that is over for the Lease with a UID.
func (a *age) outlasted(uid types.UID) bool {
	a.mutex.Lock()
	same := a.uid == uid && !a.seen.IsZero()
	a.mutex.Unlock()
	return same && a.left() == 0
}
