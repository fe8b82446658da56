package backpressure

import (
	"context"
	"sync"
	"time"
)

const (
	// Limit is how many pods can be inside before the next one waits: enough to keep an API server busy, and not more
	// than a slow one works off within a second.
	Limit = 32
	// Patience is how long one pod waits at most.
	Patience = 50 * time.Millisecond
	// stalled is from when on nobody waits any more because nobody leaves.
	stalled = time.Second
	// slowdown is by how much pods have to be slower than the fastest one for others to wait: those who are not wait for
	// each other inside.
	slowdown = 2
	// smoothing is how many pods the average goes back, about.
	smoothing = 8
)

// Gate counts the pods whose claims are being written, those inside, and has others wait outside. The zero value is
// ready to use. It is safe for concurrent use.
type Gate struct {
	mutex  sync.Mutex
	inside int
	// left is closed when somebody leaves, nil if nobody waits for that.
	left chan struct{}
	// progress is when somebody last left, or when the first of those inside came.
	progress time.Time
	// fastest and average are how long pods were inside since it was last empty, and measured how many have left since.
	fastest, average time.Duration
	measured         int
}

// Place is that of one pod inside. It is not safe for concurrent use. Nil is one that was never taken.
type Place struct {
	gate *Gate
	// since is when it was taken, zero if it was given up.
	since time.Time
}

// Wait waits until there is room, for a moment at most, and returns for how long. It takes no place: the pod may come to
// wait for something else before it writes.
func (g *Gate) Wait(ctx context.Context) time.Duration {
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

// full returns nil if the next pod may pass, else what is closed when somebody leaves.
func (g *Gate) full() <-chan struct{} {
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

// Enter takes a place, also if there is no room.
func (g *Gate) Enter() *Place {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	now := time.Now()
	if g.inside == 0 {
		g.progress, g.measured = now, 0
	}
	g.inside++
	return &Place{gate: g, since: now}
}

// Done gives the place up because everything is written, or will not be. Only the first call of Done and Leave counts.
func (p *Place) Done() {
	if took, was := p.leave(); was {
		p.gate.measure(took)
	}
}

// Leave gives the place up because the pod now waits for something else than its writes.
func (p *Place) Leave() { p.leave() }

// leave returns how long the pod was inside, if it was.
func (p *Place) leave() (took time.Duration, was bool) {
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

// measure takes note of how long a pod was inside.
func (g *Gate) measure(took time.Duration) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.measured == 0 {
		g.fastest, g.average = took, took
	}
	g.measured++
	g.fastest = min(g.fastest, took)
	g.average += (took - g.average) / smoothing
}
