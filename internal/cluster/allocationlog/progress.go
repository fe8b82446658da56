package allocationlog

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// progress is the resourceVersion up to which all changes were delivered and applied, and the list
// of goroutines that wait for it. The zero value is ready to use.
type progress struct {
	mutex     sync.Mutex
	delivered uint64
	// waiters are sorted by version.
	waiters []waiter
}

type waiter struct {
	version uint64
	done    chan struct{}
}

// upTo returns the version up to which all changes were delivered, 0 if none were.
func (p *progress) upTo() uint64 {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.delivered
}

// advance must be called when all changes up to the version have been applied. An older version has
// no effect, because it comes from a repeated event.
func (p *progress) advance(version uint64) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.delivered = max(p.delivered, version)
	p.wake()
}

// restart must be called when a list of that version has been applied. It may be older than the
// versions delivered before, if the cluster was restored from a backup.
func (p *progress) restart(version uint64) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.delivered = version
	p.wake()
}

func (p *progress) wake() {
	n := p.position(p.delivered + 1)
	for _, w := range p.waiters[:n] {
		close(w.done)
	}
	p.waiters = slices.Delete(p.waiters, 0, n)
}

// position returns the number of waiters for earlier versions.
func (p *progress) position(version uint64) int {
	n, _ := slices.BinarySearchFunc(p.waiters, version, func(w waiter, version uint64) int {
		if w.version < version {
			return -1
		}
		return 1
	})
	return n
}

// wait returns nil when all changes up to the version have been delivered, or an error when the
// context is done before.
func (p *progress) wait(ctx context.Context, version uint64) error {
	p.mutex.Lock()
	if p.delivered >= version {
		p.mutex.Unlock()
		return nil
	}
	w := waiter{version, make(chan struct{})}
	p.waiters = slices.Insert(p.waiters, p.position(version), w)
	p.mutex.Unlock()

	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return p.leave(ctx, w)
	}
}

func (p *progress) leave(ctx context.Context, w waiter) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	i := slices.Index(p.waiters, w)
	if i < 0 {
		return nil // it was delivered at the same moment
	}
	p.waiters = slices.Delete(p.waiters, i, i+1)
	return fmt.Errorf("asked to wait until the watch of ResourceClaims has delivered resourceVersion %d, it is at %d; the pod has to be scheduled again: %w",
		w.version, p.delivered, context.Cause(ctx))
}
