package search

import (
	"slices"

	"github.com/quartermaster-dra/quartermaster/internal/amount"
)

// What is left of counters (KEP-4815) is the ledger's until the search draws from a
// pool for the first time; from then on the search has its own copy.

// drawn reports whether the search has drawn from the pool, so that left says what is left.
func (p *poolState) drawn() bool { return p.draws > 0 }

// draw takes what a device consumes, all or nothing.
func (p *poolState) draw(device int) bool {
	if !p.covers(device) {
		return false
	}
	if !p.drawn() {
		p.left = append(p.left[:0], p.remaining()...)
	}
	p.draws++
	draws := p.pool.Counters.Draws(device)
	for i := range draws {
		draws[i].TakeFrom(p.left)
	}
	return true
}

// rollBack undoes a draw that succeeded.
func (p *poolState) rollBack(device int) {
	p.draws++
	draws := p.pool.Counters.Draws(device)
	for i := range draws {
		draws[i].ReturnTo(p.left)
	}
}

// remaining is what is left of the counters now.
func (p *poolState) remaining() []amount.Amount {
	if p.drawn() {
		return p.left
	}
	return p.usage.Remaining(p.pool).Amounts
}

// covers reports whether enough is left for a device.
func (p *poolState) covers(device int) bool {
	if !p.drawn() && p.usage.Remaining(p.pool).Blocked() {
		return false
	}
	left, draws := p.remaining(), p.pool.Counters.Draws(device)
	for i := range draws {
		if !draws[i].CoveredBy(left) {
			return false
		}
	}
	return true
}

// sameLeft reports whether as much is left of one counter set as of another.
func (p *poolState) sameLeft(a, b int) bool {
	left := p.remaining()
	firstA, endA := p.pool.Counters.Range(a)
	firstB, endB := p.pool.Counters.Range(b)
	return slices.Equal(left[firstA:endA], left[firstB:endB])
}
