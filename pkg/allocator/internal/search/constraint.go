package search

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/recall"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/attribute"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// scopedConstraint is a constraint of a claim during a search: it judges the devices
// of the claim together. The contract:
//   - add takes the values that a device has and reports whether the device may join
//     those added so far, and if so, counts it in. Adding more devices never turns a
//     false into a true.
//   - remove undoes the last add that has not been undone and returned true.
//
// What matchAttribute demands: all devices have a value in common. distinctAttribute:
// no two devices have a value in common.
type scopedConstraint struct {
	api      *resourceapi.DeviceConstraint
	claim    *task.Claim
	name     attribute.Name
	known    *recall.Reference[*attribute.Columns] // ColumnsFor the name
	lists    bool                                  // whether lists of values are understood
	distinct bool

	numbering numbering
	// stack has for matchAttribute what the devices up to each one have in common,
	// for distinctAttribute what each has; ends says where that of each device ends.
	stack []attribute.ValueID
	ends  []int
	// used counts, for distinctAttribute, how many devices have a value, by ValueID.
	used []int32
}

// start prepares a constraint for a search, in the memory of an earlier one.
func (c *scopedConstraint) start(s *Search, claim *task.Claim, api *resourceapi.DeviceConstraint) {
	c.api, c.claim, c.lists, c.distinct = api, claim, s.Settings().Features.ListTypeAttributes, api.MatchAttribute == nil
	if name := attribute.OfConstraint(api); c.known == nil || c.name.Full != string(name) {
		c.name = attribute.NewName(name)
		c.known = attribute.ColumnsFor(&c.name)
	}
	c.stack, c.ends = c.stack[:0], c.ends[:0]
	c.numbering.start(s.Settings().Evaluator.Memory(), c, s.view.Pools)
	c.used = resized(c.used, len(c.numbering.values))
}

// coversClaimOf reports whether the constraint is one of the request's claim.
func (c *scopedConstraint) coversClaimOf(r *task.Request) bool { return c.claim == r.Claim }

// appliesTo reports whether the constraint covers a request.
func (c *scopedConstraint) appliesTo(r *task.Request) bool { return r.IsCoveredBy(c.api) }

// devices is how many have been added.
func (c *scopedConstraint) devices() int { return len(c.ends) }

// agreed returns what the devices added so far have in common. It is only of use for
// matchAttribute and if there are any.
func (c *scopedConstraint) agreed() []attribute.ValueID {
	start := 0
	if n := len(c.ends); n > 1 {
		start = c.ends[n-2]
	}
	return c.stack[start:]
}

func (c *scopedConstraint) add(own []attribute.ValueID) bool {
	if c.distinct {
		return c.addDistinct(own)
	}
	return c.addMatching(own)
}

func (c *scopedConstraint) remove() {
	last := len(c.ends) - 1
	start := 0
	if last > 0 {
		start = c.ends[last-1]
	}
	if c.distinct {
		for _, v := range c.stack[start:] {
			c.used[v]--
		}
	}
	c.stack, c.ends = c.stack[:start], c.ends[:last]
}

func (c *scopedConstraint) addMatching(own []attribute.ValueID) bool {
	start := len(c.stack)
	switch {
	case len(c.ends) > 0:
		for _, v := range c.agreed() {
			if slices.Contains(own, v) {
				c.stack = append(c.stack, v)
			}
		}
	default:
		c.stack = append(c.stack, own...)
		// Without support for lists, a single device with a value of an unknown type
		// is accepted: there is nothing that it would have to match.
		if !c.lists {
			c.ends = append(c.ends, len(c.stack))
			return true
		}
	}
	if len(c.stack) == start {
		return false
	}
	c.ends = append(c.ends, len(c.stack))
	return true
}

func (c *scopedConstraint) addDistinct(own []attribute.ValueID) bool {
	if len(own) == 0 && (c.lists || len(c.ends) > 0) {
		return false
	}
	for len(c.used) < len(c.numbering.values) {
		c.used = append(c.used, 0) // Derived attributes bring new values.
	}
	for _, v := range own {
		if c.used[v] > 0 {
			return false
		}
	}
	for _, v := range own {
		c.used[v]++
	}
	c.stack = append(c.stack, own...)
	c.ends = append(c.ends, len(c.stack))
	return true
}

// numbering gives the values of an attribute numbers that are the same in all pools
// of a search.
type numbering struct {
	columns []*attribute.Column // by pool, nil for those that cannot be allocated from
	// ids are, by pool, the numbers of the column's values; nil if they are the same
	// as in the column.
	ids     [][]attribute.ValueID
	values  []attribute.Value
	numbers map[attribute.Value]attribute.ValueID
	scratch []attribute.ValueID
	// counts are, by ValueID, how many devices of all pools have the value; it is
	// empty until somebody asks.
	counts []int
}

func (n *numbering) start(m *recall.Memory, c *scopedConstraint, pools []*inventory.NodePool) {
	n.columns, n.ids = resized(n.columns, len(pools)), resized(n.ids, len(pools))
	n.values, n.counts = nil, n.counts[:0]
	clear(n.numbers)
	for i, pool := range pools {
		if pool.State != inventory.Complete {
			continue
		}
		column := attribute.ColumnOf(m, c.known, pool, &c.name, c.lists)
		n.columns[i] = column
		if len(n.values) == 0 {
			// Clipped, so that nothing is ever appended to what the column has.
			n.values = slices.Clip(column.Values)
			continue
		}
		for _, v := range column.Values {
			n.ids[i] = append(n.ids[i], n.number(v))
		}
	}
}

// number returns the number of a value, which may be new.
func (n *numbering) number(v attribute.Value) attribute.ValueID {
	if len(n.numbers) == 0 {
		if n.numbers == nil {
			n.numbers = make(map[attribute.Value]attribute.ValueID)
		}
		for i, known := range n.values {
			n.numbers[known] = attribute.ValueID(i)
		}
	}
	number, found := n.numbers[v]
	if !found {
		number = attribute.ValueID(len(n.values))
		n.values = append(n.values, v)
		n.numbers[v] = number
	}
	return number
}

// holders is how many devices publish a value, whether they can be had or not.
func (n *numbering) holders(v attribute.ValueID) int {
	if len(n.counts) == 0 {
		n.counts = resized(n.counts, len(n.values))
		for pool, column := range n.columns {
			if column != nil {
				n.addCounts(pool, column)
			}
		}
	}
	if int(v) >= len(n.counts) {
		return 0 // A derived attribute has brought it.
	}
	return n.counts[v]
}

func (n *numbering) addCounts(pool int, column *attribute.Column) {
	for local, devices := range column.Having {
		id := attribute.ValueID(local)
		if ids := n.ids[pool]; ids != nil {
			id = ids[local]
		}
		n.counts[id] += devices.Len()
	}
}

// of returns the values that a device publishes, until the next call, and whether it
// has the attribute.
func (n *numbering) of(at location) ([]attribute.ValueID, bool) {
	column := n.columns[at.pool]
	own := column.Of[at.device]
	if ids := n.ids[at.pool]; ids != nil && len(own) > 0 {
		n.scratch = n.scratch[:0]
		for _, v := range own {
			n.scratch = append(n.scratch, ids[v])
		}
		own = n.scratch
	}
	return own, column.Published.Has(at.device)
}
