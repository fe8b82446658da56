package search

import (
	"slices"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
)

// Counters (KEP-4815): the ledger has the remaining amounts until the search draws from a pool for the first
// time. From then on the search has its own copy.

// drawn reports whether the search has drawn from the pool, so that left holds the remaining amounts.
func (p *poolState) drawn() bool { return p.draws > 0 }

// draw takes the counters that a device consumes, all or nothing.
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

// rollBack reverses a draw that succeeded.
func (p *poolState) rollBack(device int) {
	p.draws++
	draws := p.pool.Counters.Draws(device)
	for i := range draws {
		draws[i].ReturnTo(p.left)
	}
}

// remaining returns the current remaining amounts of the counters.
func (p *poolState) remaining() []quantity.Amount {
	if p.drawn() {
		return p.left
	}
	return p.usage.Remaining(p.pool).Amounts
}

// covers reports whether the counters suffice for a device.
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

// sameLeft reports whether two counter sets have the same amounts left.
func (p *poolState) sameLeft(a, b int) bool {
	left := p.remaining()
	firstA, endA := p.pool.Counters.Range(a)
	firstB, endB := p.pool.Counters.Range(b)
	return slices.Equal(left[firstA:endA], left[firstB:endB])
}
