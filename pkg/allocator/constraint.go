package allocator

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// constraint judges the devices of a claim together. The contract:
//   - add takes the device's attribute and reports whether the device may join those
//     added so far, and if so, counts it in. Adding more devices never turns a false
//     into a true.
//   - remove undoes the last add that has not been undone and returned true.
type constraint interface {
	add(attribute *resourceapi.DeviceAttribute) bool
	remove()
}

// scopedConstraint is a constraint together with the requests that it is for.
type scopedConstraint struct {
	constraint
	api   *resourceapi.DeviceConstraint
	name  attributeName
	lists bool // whether lists of values are understood
	claim *claim
}

// coversClaimOf reports whether the constraint is one of the request's claim.
func (c *scopedConstraint) coversClaimOf(r *request) bool { return c.claim == r.claim }

// appliesTo reports whether the constraint covers a request. It may name the
// request or only one of its alternatives; naming none means all.
func (c *scopedConstraint) appliesTo(r *request) bool {
	requests := c.api.Requests
	return len(requests) == 0 || slices.Contains(requests, r.reference()) ||
		r.parent != "" && slices.Contains(requests, r.parent)
}

func (t *Task) newConstraints(c *claim) []scopedConstraint {
	lists := t.solver.Features.ListTypeAttributes
	result := make([]scopedConstraint, len(c.constraints))
	for i := range c.constraints {
		api := &c.constraints[i]
		if api.MatchAttribute != nil {
			name := newAttributeName(*api.MatchAttribute)
			result[i] = scopedConstraint{&matchAttribute{lists: lists}, api, name, lists, c}
		} else {
			name := newAttributeName(*api.DistinctAttribute)
			result[i] = scopedConstraint{&distinctAttribute{lists: lists}, api, name, lists, c}
		}
	}
	return result
}

// matchAttribute demands that all devices have a value in common. agreed[i] is
// what the first i+1 devices have in common.
type matchAttribute struct {
	lists  bool
	agreed [][]value
}

func (m *matchAttribute) add(attribute *resourceapi.DeviceAttribute) bool {
	own := values(attribute, m.lists)
	if len(m.agreed) > 0 {
		own = common(m.agreed[len(m.agreed)-1], own)
	} else if !m.lists {
		// Without support for lists, a single device with a value of an unknown
		// type is accepted: there is nothing that it would have to match.
		m.agreed = append(m.agreed, own)
		return true
	}
	if len(own) == 0 {
		return false
	}
	m.agreed = append(m.agreed, own)
	return true
}

func (m *matchAttribute) remove() { m.agreed = m.agreed[:len(m.agreed)-1] }

// distinctAttribute demands that no two devices have a value in common.
type distinctAttribute struct {
	lists bool
	taken [][]value
}

func (d *distinctAttribute) add(attribute *resourceapi.DeviceAttribute) bool {
	own := values(attribute, d.lists)
	if len(own) == 0 && (d.lists || len(d.taken) > 0) {
		return false
	}
	for _, taken := range d.taken {
		if len(common(taken, own)) > 0 {
			return false
		}
	}
	d.taken = append(d.taken, own)
	return true
}

func (d *distinctAttribute) remove() { d.taken = d.taken[:len(d.taken)-1] }
