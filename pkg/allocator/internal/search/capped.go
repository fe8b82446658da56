package search

import (
	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
)

// capping limits the number of devices of a counter set that are available at the same time. The counters may
// suffice for each device but not for all: if all devices draw at least some amount of a counter, at most as
// many are available as that amount fits into the rest of the counter. capping is used only after the search
// turned back, because it takes longer than the rest of a check.
type capping struct {
	cells []cell
	// least is, by cell and counter of the set, the minimum that any device draws.
	least []quantity.Amount
	seen  []bool
}

// cell counts the devices of a counter set that the same rows can use.
type cell struct {
	users uint64
	count int
}

// addCapped adds the devices of a pool that draw from a single counter set to the supplies, and removes them
// from the rows' words.
func (s *Search) addCapped(pool int) {
	p := &s.pools[pool]
	if !p.drawn() {
		return
	}
	sets := Of(p.pool)
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
	// The first cell is for all devices of the set, regardless of the rows.
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

// takeOut removes a device from all rows and returns these rows. Shareable devices stay, because counters do
// not limit how many claims can use them.
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
		c.least, c.seen = append(c.least, quantity.Amount{}), append(c.seen, false)
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

// count adds a device to a cell. A counter that the device does not draw counts as zero.
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
			least[i] = quantity.Amount{}
		}
	}
	c.cells[index].count++
}

// most returns the number of devices of a cell that the rest of the counters suffices for, at most limit.
func (c *capping) most(index int, left []quantity.Amount, limit int) int {
	for i, least := range c.least[index*len(left) : (index+1)*len(left)] {
		if least != (quantity.Amount{}) {
			limit = left[i].Times(least, limit)
		}
	}
	return limit
}
