package classic

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// turns makes writes to the same claim wait for each other: of pods that share a claim and
// are bound at the same time, all but one would only cause conflicts. The zero value is
// ready to use. Claims that nobody writes to take no memory.
type turns struct {
	mutex  sync.Mutex
	claims map[types.UID]*claimTurns
}

// claimTurns is held by whoever put a value into the channel, whose capacity is one.
type claimTurns struct {
	held chan struct{}
	// users counts the holder and those who wait. It needs the mutex of the turns.
	users int
}

// take waits for the caller's turn, or until the context is done. The caller must call
// done unless there is an error.
func (t *turns) take(ctx context.Context, claim types.UID) (done func(), err error) {
	t.mutex.Lock()
	if t.claims == nil {
		t.claims = make(map[types.UID]*claimTurns)
	}
	c := t.claims[claim]
	if c == nil {
		c = &claimTurns{held: make(chan struct{}, 1)}
		t.claims[claim] = c
	}
	c.users++
	t.mutex.Unlock()
	leave := func() {
		t.mutex.Lock()
		defer t.mutex.Unlock()
		if c.users--; c.users == 0 {
			delete(t.claims, claim)
		}
	}
	select {
	case c.held <- struct{}{}:
		return func() {
			<-c.held
			leave()
		}, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
