package claimwriter

import (
	"context"
	"sync"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ClaimLocks is one lock per claim UID, so that writes to the same claim wait for each
// other instead of causing write conflicts. The zero value is ready to use. Locks of claims
// which nobody holds or waits for take no memory.
type ClaimLocks struct {
	mutex sync.Mutex
	locks map[types.UID]*claimLock
	// clock counts what happens to locks: it says what was before what.
	clock atomic.Int64
}

// claimLock is held by whoever put a value into the channel, whose capacity is
// one. users counts the holder and those who wait; it needs the mutex of the ClaimLocks.
type claimLock struct {
	held  chan struct{}
	users int
	// latest is what the last holder knew about the claim, nil if nothing. Only the
	// holder touches it.
	latest *resourceapi.ResourceClaim
	// asked is a time before the server was asked for latest.
	asked int64
}

// Turn is the time from Lock to End, during which the claim is the holder's alone.
type Turn struct {
	lock  *ClaimLocks
	uid   types.UID
	claim *claimLock
	// waited and began are when Lock was called, and when it returned.
	waited, began int64
}

// Lock waits for the lock of the UID, or returns the cause of the context's end if that
// comes first. The caller must end the turn.
func (l *ClaimLocks) Lock(ctx context.Context, uid types.UID) (*Turn, error) {
	waited := l.clock.Add(1)
	l.mutex.Lock()
	if l.locks == nil {
		l.locks = make(map[types.UID]*claimLock)
	}
	claim := l.locks[uid]
	if claim == nil {
		claim = &claimLock{held: make(chan struct{}, 1)}
		l.locks[uid] = claim
	}
	claim.users++
	l.mutex.Unlock()

	select {
	case claim.held <- struct{}{}:
		return &Turn{lock: l, uid: uid, claim: claim, waited: waited, began: l.clock.Add(1)}, nil
	case <-ctx.Done():
		l.leave(uid, claim)
		return nil, context.Cause(ctx)
	}
}

// leave forgets the lock when its last user is gone.
func (l *ClaimLocks) leave(uid types.UID, claim *claimLock) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	claim.users--
	if claim.users == 0 {
		delete(l.locks, uid)
	}
}

// others reports whether somebody waits for the claim.
func (l *ClaimLocks) others(claim *claimLock) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return claim.users > 1
}

// latest is the state of the claim that the last turn left, nil if there is none. It
// must not be modified.
func (t *Turn) latest() *resourceapi.ResourceClaim { return t.claim.latest }

// upToDate reports whether the server was asked for that state after Lock was called, so
// that asking it again would tell nothing that has to be known.
func (t *Turn) upToDate() bool { return t.claim.asked > t.waited }

// End releases the lock. Whoever waits for it gets a copy of the state, which is nil if
// nothing is known. Unless it is the one that latest has returned, the server was asked for
// it during this turn.
func (t *Turn) End(state *resourceapi.ResourceClaim) {
	if state != t.claim.latest {
		t.claim.asked = t.began
	}
	t.claim.latest = nil
	if state != nil && t.lock.others(t.claim) {
		t.claim.latest = state.DeepCopy()
	}
	<-t.claim.held
	t.lock.leave(t.uid, t.claim)
}
