package write

import (
	"context"
	"sync"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ClaimLocks holds one lock per claim UID, so that writes to the same claim wait for each other
// instead of causing write conflicts. The zero value is ready to use. Unused locks take no memory.
type ClaimLocks struct {
	mutex sync.Mutex
	locks map[types.UID]*claimLock
	// clock numbers the events of all locks, to order them in time.
	clock atomic.Int64
}

// claimLock is held by the goroutine that put a value into the channel held, whose capacity is one.
// users counts the holder and those who wait; it needs the mutex of the ClaimLocks.
type claimLock struct {
	held  chan struct{}
	users int
	// latest is the state of the claim that the last holder left, nil if none. Only the holder
	// accesses it.
	latest *resourceapi.ResourceClaim
	// asked is a time before the request that returned latest.
	asked int64
}

// Turn is the period from Lock to End, in which its holder has exclusive access to the claim.
type Turn struct {
	lock  *ClaimLocks
	uid   types.UID
	claim *claimLock
	// waited is the time of the call of Lock, and began the time of its return.
	waited, began int64
}

// Lock waits for the lock of the UID, or returns the cause of the context if that ends first. The
// caller must end the turn.
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

// leave removes the lock when its last user leaves.
func (l *ClaimLocks) leave(uid types.UID, claim *claimLock) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	claim.users--
	if claim.users == 0 {
		delete(l.locks, uid)
	}
}

// others reports whether other goroutines wait for the claim.
func (l *ClaimLocks) others(claim *claimLock) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return claim.users > 1
}

// latest returns the state of the claim that the last turn left, nil if there is none. It must not
// be modified.
func (t *Turn) latest() *resourceapi.ResourceClaim { return t.claim.latest }

// upToDate reports whether that state was requested from the server after Lock was called, so that
// another request is not needed.
func (t *Turn) upToDate() bool { return t.claim.asked > t.waited }

// End releases the lock. The next goroutine that waits for it gets a copy of the state, nil if the
// state is unknown. A state other than that of latest must have been requested from the server
// during this turn.
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
