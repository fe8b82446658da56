package search

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/attribute"
	"github.com/quartermaster-dra/quartermaster/internal/memo"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
)

// scopedConstraint is a constraint of a claim during a search. It judges the devices of the claim together:
//   - add takes the values of a device and reports whether the device is compatible with those
//     added before. If it is, add records the device. Adding more devices never turns a false
//     into a true.
//   - remove reverses the last add that returned true and was not reversed yet.
//
// matchAttribute demands that all devices have a value in common, distinctAttribute that no two devices have
// a value in common.
type scopedConstraint struct {
	api      *resourceapi.DeviceConstraint
	claim    *task.Claim
	name     attribute.Name
	known    *memo.Reference[*attribute.Columns] // ColumnsFor the name
	lists    bool                                // whether lists of values are supported
	upstream bool                                // see addDistinct
	distinct bool

	numbering attribute.Numbering
	// stack holds, for matchAttribute, the common values of the devices up to each one, and for
	// distinctAttribute the values of each. ends holds the end of each device's part.
	stack []attribute.ValueID
	ends  []int
	// used counts, for distinctAttribute, the devices with each value, by ValueID.
	used []int32
}

// start prepares a constraint for a search, in the memory of an earlier search.
func (c *scopedConstraint) start(s *Search, claim *task.Claim, api *resourceapi.DeviceConstraint) {
	c.api, c.claim, c.lists, c.distinct = api, claim, s.Settings().Features.ListTypeAttributes, api.MatchAttribute == nil
	if name := attribute.OfConstraint(api); c.known == nil || c.name.Full != string(name) {
		c.name = attribute.NewName(name)
		c.known = attribute.ColumnsFor(&c.name)
	}
	c.upstream = s.Settings().AsUpstream
	c.stack, c.ends = c.stack[:0], c.ends[:0]
	c.numbering.Start(s.Settings().Evaluator.Memory(), c.known, &c.name, c.lists, s.view.Pools)
	c.used = Resized(c.used, len(c.numbering.Values))
}

// coversClaimOf reports whether the constraint belongs to the request's claim.
func (c *scopedConstraint) coversClaimOf(r *task.Request) bool { return c.claim == r.Claim }

// appliesTo reports whether the constraint covers a request.
func (c *scopedConstraint) appliesTo(r *task.Request) bool { return r.IsCoveredBy(c.api) }

// devices returns the number of devices added.
func (c *scopedConstraint) devices() int { return len(c.ends) }

// agreed returns the common values of the devices added so far. It is valid only for matchAttribute, after
// the first device.
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
		// Without support for lists, a single device with a value of an unknown type is accepted, because
		// there is no other device to match.
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

// addDistinct accepts a value of an unknown type, without support for lists, only from a device that is
// alone, because it is unknown whether others differ from it. Upstream lets others join such a device, but
// not the other way round.
func (c *scopedConstraint) addDistinct(own []attribute.ValueID) bool {
	if len(own) == 0 && (c.lists || len(c.ends) > 0) {
		return false
	}
	if !c.upstream && len(c.ends) > 0 && c.ends[0] == 0 {
		return false
	}
	for len(c.used) < len(c.numbering.Values) {
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
