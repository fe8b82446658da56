package commit

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// keyedLock is one lock per claim UID. The zero value is ready to use. Locks of
// claims which nobody holds or waits for take no memory.
type keyedLock struct {
	mutex sync.Mutex
	locks map[types.UID]*claimLock
}

// claimLock is held by whoever put a value into the channel, whose capacity is
// one. users counts the holder and those who wait.
type claimLock struct {
	held  chan struct{}
	users int
}

// lock waits for the lock of the UID and returns the function that releases it,
// or the context's error if it is done first.
func (l *keyedLock) lock(ctx context.Context, uid types.UID) (unlock func(), err error) {
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
		return func() {
			<-claim.held
			l.leave(uid, claim)
		}, nil
	case <-ctx.Done():
		l.leave(uid, claim)
		return nil, context.Cause(ctx)
	}
}

// leave forgets the lock when its last user is gone.
func (l *keyedLock) leave(uid types.UID, claim *claimLock) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	claim.users--
	if claim.users == 0 {
		delete(l.locks, uid)
	}
}
