package search

import (
	"github.com/quartermaster-dra/quartermaster/internal/amount"
	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/partition"
)

// capping limits how many devices of a counter set can be had at once. Each of them is
// covered by what is left, but together they may not be: of devices that all draw at
// least some amount of a counter, no more can be had than that amount fits into what
// is left. It is only looked at after the search turned back; it takes longer than the
// rest of a check.
type capping struct {
	cells []cell
	// least is, by cell and counter of the set, the least that any device draws.
	least []amount.Amount
	seen  []bool
}

// cell are the devices of a counter set which the same rows can use.
type cell struct {
	users uint64
	count int
}

// addCapped adds the devices of a pool that draw from a single counter set to the
// supplies, and takes them out of the rows' words.
func (s *Search) addCapped(pool int) {
	p := &s.pools[pool]
	if !p.drawn() {
		return
	}
	sets := partition.Of(p.pool)
	for set := range sets.Users {
		if sets.Alone[set] {
			s.addCappedSet(p, set, sets.Users[set])
		}
	}
}

func (s *Search) addCappedSet(p *poolState, set int, devices []int) {
	f, c := &s.memory.flow, &s.memory.flow.capping
	first, end := p.pool.Counters.Range(set)
	width := end - first
	// The first cell is for all devices of the set, whoever can use them.
	c.cells, c.least, c.seen = append(c.cells[:0], cell{}), c.least[:0], c.seen[:0]
	c.grow(width)
	for _, device := range devices {
		users := f.takeOut(device, p.shareable)
		if users == 0 {
			continue
		}
		c.count(p, 0, first, width, device)
		c.count(p, c.cellFor(users, width), first, width, device)
	}
	left, total := p.remaining()[first:end], 0
	for i := range c.cells {
		c.cells[i].count = min(c.cells[i].count, c.most(i, left, c.cells[i].count))
		if i > 0 {
			f.addSupply(c.cells[i].users, c.cells[i].count)
			total += c.cells[i].count
		}
	}
	f.surplus += total - min(total, c.cells[0].count)
}

// takeOut removes a device from all rows and returns which they were. Devices that can
// be shared stay: how many can be had of them is no matter of counters.
func (f *flow) takeOut(device int, shareable bitset.Set) (users uint64) {
	if bitset.Has(shareable, device) {
		return 0
	}
	for i := range f.rows {
		if f.words[i].Has(device) {
			f.words[i].Remove(device)
			users |= 1 << i
		}
	}
	return users
}

func (c *capping) grow(width int) {
	for range width {
		c.least, c.seen = append(c.least, amount.Amount{}), append(c.seen, false)
	}
}

func (c *capping) cellFor(users uint64, width int) int {
	for i := 1; i < len(c.cells); i++ {
		if c.cells[i].users == users {
			return i
		}
	}
	c.cells = append(c.cells, cell{users: users})
	c.grow(width)
	return len(c.cells) - 1
}

// count adds a device to a cell. What the device does not draw counts as zero.
func (c *capping) count(p *poolState, index, first, width, device int) {
	least := c.least[index*width : (index+1)*width]
	drawn := c.seen[index*width : (index+1)*width]
	clear(drawn)
	for number, needed := range p.pool.Counters.Draws(device)[0].All() {
		i := number - first
		if c.cells[index].count == 0 || least[i].Covers(needed) {
			least[i] = needed
		}
		drawn[i] = true
	}
	for i := range drawn {
		if !drawn[i] {
			least[i] = amount.Amount{}
		}
	}
	c.cells[index].count++
}

// most returns how many devices of a cell fit into what is left, at most limit.
func (c *capping) most(index int, left []amount.Amount, limit int) int {
	for i, least := range c.least[index*len(left) : (index+1)*len(left)] {
		if least != (amount.Amount{}) {
			limit = left[i].Times(least, limit)
		}
	}
	return limit
}
