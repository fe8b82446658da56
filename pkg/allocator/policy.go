package allocator

import (
	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Policy decides which of several solutions a search meets first. Without a policy
// devices are tried in upstream's order. It does not decide whether there is a
// solution, with one exception that is upstream's: of devices with an attribute value
// of unknown type a constraint accepts only the one that is tried first.
type Policy interface {
	// Order returns the positions of a pool's candidates in the order in which they
	// are to be tried, best first, each candidate exactly once; nil means as the pool
	// lists them. It must depend on nothing but its arguments and change none. A
	// candidate for which the claim cannot be allocated at all (a selector fails on it)
	// is not among candidates; it is met after all others of its pool.
	Order(pool *inventory.NodePool, usage *ledger.PoolUsage, candidates bitset.Set) []int
}

// next returns the rank of the next candidate at or after a rank, or -1.
func (c *candidates) next(from int) int {
	if c.order != nil {
		return c.nextInOrder(from)
	}
	if c.open != nil {
		return c.open.Next(from)
	}
	usable, failing := c.usable.Next(from), c.failing.Next(from)
	if usable < 0 || failing >= 0 && failing < usable {
		return failing
	}
	return usable
}

func (c *candidates) nextInOrder(from int) int {
	if from < len(c.order) {
		return from
	}
	failing := c.failing.Next(from - len(c.order))
	if failing < 0 {
		return -1
	}
	return len(c.order) + failing
}

// device returns the position of the device at a rank. With a policy, failing devices
// have the ranks after all others.
func (c *candidates) device(rank int) int {
	switch {
	case c.order == nil:
		return rank
	case rank < len(c.order):
		return c.order[rank]
	}
	return rank - len(c.order)
}
