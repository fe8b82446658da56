package limiter

import (
	"context"
	"sync"
	"time"
)

const (
	// Limit is the number of pods inside from which the next one waits: enough to keep an API server busy, and not more
	// than a slow one works off within a second.
	Limit = 32
	// Patience limits the wait of one pod.
	Patience = 50 * time.Millisecond
	// stalled is the time without a pod leaving after which pods no longer wait.
	stalled = time.Second
	// slowdown is the ratio of the average time inside to the fastest one from which pods wait outside. Below it, they
	// may wait for each other inside.
	slowdown = 2
	// smoothing is the approximate number of pods in the average.
	smoothing = 8
)

// A Limiter counts the pods whose claims are being written (the pods inside), and lets other pods wait outside. The zero
// value is ready to use. It is safe for concurrent use.
type Limiter struct {
	mutex  sync.Mutex
	inside int
	// left is closed when a pod leaves; nil if no pod waits for that.
	left chan struct{}
	// progress is the time when a pod last left, or when the first of the pods inside entered.
	progress time.Time
	// fastest and average are times that pods spent inside since the Limiter was last empty, and measured is the number of
	// these pods.
	fastest, average time.Duration
	measured         int
}

// A Slot belongs to one pod inside. It is not safe for concurrent use. A nil Slot was never taken.
type Slot struct {
	gate *Limiter
	// since is the time when it was taken, zero once it is given up.
	since time.Time
}

// Wait waits for room, at most Patience, and returns the time that it took. It takes no place: the pod may have to wait
// for something else before it writes.
func (g *Limiter) Wait(ctx context.Context) time.Duration {
	begin := time.Now()
	left := g.full()
	if left == nil {
		return 0
	}
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	for ; left != nil; left = g.full() {
		select {
		case <-left:
			continue
		case <-timer.C:
		case <-ctx.Done():
		}
		break
	}
	return time.Since(begin)
}

// full returns nil if the next pod may pass, otherwise a channel that is closed when a pod leaves.
func (g *Limiter) full() <-chan struct{} {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	switch {
	case g.inside < Limit, time.Since(g.progress) >= stalled:
		return nil
	case g.measured >= Limit && g.average < slowdown*g.fastest:
		return nil
	}
	if g.left == nil {
		g.left = make(chan struct{})
	}
	return g.left
}

// Enter takes a place, even if there is no room.
func (g *Limiter) Enter() *Slot {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	now := time.Now()
	if g.inside == 0 {
		g.progress, g.measured = now, 0
	}
	g.inside++
	return &Slot{gate: g, since: now}
}

// Done gives up the place because everything is written, or will not be. Only the first call of Done or Leave counts.
func (p *Slot) Done() {
	if took, was := p.leave(); was {
		p.gate.measure(took)
	}
}

// Leave gives up the place because the pod waits for something other than its writes now.
func (p *Slot) Leave() { p.leave() }

// leave returns the time that the pod was inside, if it was.
func (p *Slot) leave() (took time.Duration, was bool) {
	if p == nil || p.since.IsZero() {
		return 0, false
	}
	now := time.Now()
	took, p.since = now.Sub(p.since), time.Time{}
	g := p.gate
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.inside--
	g.progress = now
	if g.left != nil {
		close(g.left)
		g.left = nil
	}
	return took, true
}

// measure records the time that a pod was inside.
func (g *Limiter) measure(took time.Duration) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.measured == 0 {
		g.fastest, g.average = took, took
	}
	g.measured++
	g.fastest = min(g.fastest, took)
	g.average += (took - g.average) / smoothing
}
