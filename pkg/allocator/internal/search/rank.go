package search

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
