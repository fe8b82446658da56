package gang

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// mix looks for a way to place enough pods in any order, where the order matters and placing one class after the other has
// led nowhere. What a way leads to depends only on who is where, so ways that got nowhere are not gone again.
func (c *chain) mix(nowhere map[string]bool) bool {
	if sum(c.counts) >= c.Need {
		c.addMore()
		return true
	}
	key := c.key()
	if nowhere[key] {
		return false
	}
	for class := range slices.Backward(c.Classes) { // The order of the other search comes last.
		if c.counts[class] == c.Classes[class].Pods {
			continue
		}
		for _, node := range c.Nodes {
			if c.add(class, node) {
				if c.mix(nowhere) {
					return true
				}
				c.remove(class)
			}
			if c.stopped {
				return false
			}
		}
	}
	nowhere[key] = true
	return false
}

// addMore adds as many more pods as fit without turning back.
func (c *chain) addMore() {
	for class := range c.Classes {
		for _, node := range c.Nodes {
			for c.counts[class] < c.Classes[class].Pods && c.add(class, node) {
			}
		}
	}
}

// key says how many pods of each class are on which node.
func (c *chain) key() string {
	seats := slices.Clone(c.seats)
	slices.SortFunc(seats, func(a, b Seat) int { return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Node, b.Node)) })
	var key []byte
	for _, seat := range seats {
		key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(seat.Class)), uint64(seat.Node))
	}
	return string(key)
}
