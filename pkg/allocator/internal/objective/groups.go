package objective

import (
	"encoding/binary"
	"slices"

	"github.com/quartermaster-dra/quartermaster/internal/attribute"
	"github.com/quartermaster-dra/quartermaster/internal/memo"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Groups are sets of units of a node that are close: they have the same value of an attribute, for each
// attribute that the objective names. A unit is a device, or all devices cut out of the same physical device.
//
// A group of n free units counts n squared. So a unit costs less, the fewer free units its group has: broken
// groups are used first, and of two groups the smaller.
type Groups struct {
	levels []groupLevel
	busy   []int // by unit: number of its devices that are not wholly free
	// lost is the decrease of the count of each level's groups since Start.
	lost [MaxCloseness]int
}

// groupLevel holds the groups by one attribute.
type groupLevel struct {
	numbering attribute.Numbering
	values    [][]attribute.ValueID // by unit
	// By value: number of units with it, and number of these that are wholly free.
	units, free []int
}

// Site is the place of the search: the pools of a node, and the free parts of their devices.
type Site struct {
	Memory *memo.Memory
	Lists  bool // whether lists of values are supported
	Pools  []*inventory.NodePool
	// First is, by pool, the index of its first device in State.Devices and Whole. Whole marks devices
	// without any use. Units is the number of units.
	First []int
	State *State
	Whole []bool
	Units int
}

// Start resets the groups to the free devices of a site.
func (g *Groups) Start(o *Objective, site *Site) {
	g.busy, g.lost = cleared(g.busy, site.Units), [MaxCloseness]int{}
	for i := range site.State.Devices {
		if d := &site.State.Devices[i]; d.Size > 0 && !site.Whole[i] {
			g.busy[d.Unit]++
		}
	}
	levels := o.Levels()
	for len(g.levels) < len(levels) {
		g.levels = append(g.levels, groupLevel{})
	}
	g.levels = g.levels[:len(levels)]
	for i := range g.levels {
		g.levels[i].start(&levels[i], site, g.busy)
	}
}

// Release drops the references to pools.
func (g *Groups) Release() {
	for i := range g.levels {
		g.levels[i].numbering = attribute.Numbering{}
	}
}

func (l *groupLevel) start(level *Level, site *Site, busy []int) {
	l.numbering.Start(site.Memory, level.Known, &level.Name, site.Lists, site.Pools)
	l.units, l.free = cleared(l.units, len(l.numbering.Values)), cleared(l.free, len(l.numbering.Values))
	l.values = cleared(l.values, len(busy))
	if len(l.numbering.Values) == 0 {
		return // The usual case: no device publishes the attribute.
	}
	for pool := range site.Pools {
		if site.Pools[pool].State != inventory.Complete {
			continue
		}
		for device := range site.Pools[pool].Devices {
			if d := &site.State.Devices[site.First[pool]+device]; d.Size > 0 {
				l.addUnit(d.Unit, busy, pool, device)
			}
		}
	}
}

// addUnit adds a device's values to its unit.
func (l *groupLevel) addUnit(unit int32, busy []int, pool, device int) {
	own, _ := l.numbering.At(pool, device)
	for _, v := range own {
		if slices.Contains(l.values[unit], v) {
			continue
		}
		l.values[unit] = append(l.values[unit], v)
		l.units[v]++
		if busy[unit] == 0 {
			l.free[v]++
		}
	}
}

// Change records that a device of a unit became wholly free, or ceased to be.
func (g *Groups) Change(unit int32, whole bool) {
	if whole {
		if g.busy[unit]--; g.busy[unit] == 0 {
			g.changeUnit(unit, 1)
		}
		return
	}
	if g.busy[unit]++; g.busy[unit] == 1 {
		g.changeUnit(unit, -1)
	}
}

// WholeUnits returns the number of wholly free units. It ignores units that the node cannot use.
func (g *Groups) WholeUnits(state *State) (whole int) {
	counted := make(map[int32]bool)
	for i := range state.Devices {
		if d := &state.Devices[i]; d.Size > 0 && !counted[d.Unit] && g.busy[d.Unit] == 0 {
			counted[d.Unit] = true
			whole++
		}
	}
	return whole
}

func (g *Groups) changeUnit(unit int32, by int) {
	for i := range g.levels {
		l := &g.levels[i]
		for _, v := range l.values[unit] {
			if l.units[v] < 2 {
				continue // A single unit is not a group.
			}
			before := l.free[v]
			l.free[v] += by
			g.lost[i] += before*before - l.free[v]*l.free[v]
		}
	}
}

// AppendTo encodes which devices a device is close to. A value that only one unit has makes no other unit
// close, so all such units get the same encoding.
func (g *Groups) AppendTo(b []byte, pool, device int) []byte {
	for i := range g.levels {
		l := &g.levels[i]
		b = append(b, '/')
		if len(l.numbering.Values) == 0 {
			continue
		}
		own, _ := l.numbering.At(pool, device)
		for _, v := range own {
			if l.units[v] < 2 {
				b = append(b, '!')
			} else {
				b = binary.AppendVarint(b, int64(v))
			}
		}
	}
	return b
}

// Near counts how close the pod's own devices are to each other.
type Near struct {
	groups *Groups
	placed [][2]int // pool and device
	// apart is, by level, the number of pairs without a common value.
	apart [MaxCloseness]int
}

// Start resets to no devices.
func (n *Near) Start(g *Groups) {
	n.groups, n.placed, n.apart = g, n.placed[:0], [MaxCloseness]int{}
}

// Add adds a device.
func (n *Near) Add(pool, device int) {
	n.apart = n.with(pool, device)
	n.placed = append(n.placed, [2]int{pool, device})
}

// Remove reverses the last Add.
func (n *Near) Remove() {
	last := n.placed[len(n.placed)-1]
	n.placed = n.placed[:len(n.placed)-1]
	with := n.with(last[0], last[1])
	for level := range with {
		n.apart[level] -= with[level] - n.apart[level]
	}
}

// Apart returns the number of pairs that are not close, see Value.
func (n *Near) Apart() uint64 { return joinApart(n.apart) }

// ApartWith returns Apart as if a device were added.
func (n *Near) ApartWith(pool, device int) uint64 { return joinApart(n.with(pool, device)) }

func (n *Near) with(pool, device int) [MaxCloseness]int {
	apart := n.apart
	for level := range n.groups.levels {
		numbering := &n.groups.levels[level].numbering
		if len(numbering.Values) == 0 {
			apart[level] += len(n.placed)
			continue
		}
		for _, other := range n.placed {
			if !numbering.HaveCommon(pool, device, other[0], other[1]) {
				apart[level]++
			}
		}
	}
	return apart
}

// Broken returns the decrease of the groups' count, see Value.
func (g *Groups) Broken() (broken float64) {
	weight := 1.0
	for _, n := range g.lost {
		broken += weight * float64(n)
		weight /= 1 << bitsPerLevel
	}
	return broken
}

const bitsPerLevel = 16

// joinApart packs the levels' numbers of pairs that are not close into one number.
func joinApart(pairs [MaxCloseness]int) (apart uint64) {
	for level, n := range pairs {
		apart |= uint64(min(n, 1<<bitsPerLevel-1)) << (bitsPerLevel * (MaxCloseness - 1 - level))
	}
	return apart
}

// cleared returns a zeroed list of the given length, in the same memory if possible.
func cleared[T any](list []T, length int) []T {
	if cap(list) < length {
		return make([]T, length)
	}
	list = list[:length]
	clear(list)
	return list
}
