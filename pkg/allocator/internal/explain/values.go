package explain

import "github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/attribute"

// group are devices that agree on a value.
type group struct {
	value   attribute.Value
	devices int
	// bySlot is how many of them each covered request could have if it were alone.
	bySlot []int
}

// groupCounts counts devices by value, in the order in which values are met.
type groupCounts struct {
	order  []attribute.Value
	groups map[attribute.Value]*group
	slots  int
}

func (g *groupCounts) of(v attribute.Value) *group {
	if g.groups[v] == nil {
		g.groups[v] = &group{value: v, bySlot: make([]int, g.slots)}
		g.order = append(g.order, v)
	}
	return g.groups[v]
}

// add counts a device.
func (g *groupCounts) add(values []attribute.Value) {
	for _, v := range values {
		g.of(v).devices++
	}
}

// addTo counts a device for a request.
func (g *groupCounts) addTo(slot int, values []attribute.Value) {
	for _, v := range values {
		g.of(v).bySlot[slot]++
	}
}

// greatest returns the greatest group, and of several the one that is met first. For
// distinctAttribute it is the number of values. A group that is enough comes before
// one that is not, and one that has enough for each request before others.
func (g *groupCounts) greatest(a *agreement) group {
	if a.constraint != nil && a.constraint.distinct {
		return group{devices: len(g.order)}
	}
	best, bestRank := group{}, 0
	for _, v := range g.order {
		one := *g.groups[v]
		if a.constraint != nil && !v.IsKnown() {
			one = one.notUnderstood()
		}
		rank := 0
		if a.satisfiesEach(&one) {
			rank = 1
			if one.devices >= a.wanted {
				rank = 2
			}
		}
		if rank > bestRank || rank == bestRank && one.devices > best.devices {
			best, bestRank = one, rank
		}
	}
	return best
}

// notUnderstood is the group of devices whose value is of a type that is not known.
// They agree with none, not even among themselves.
func (g *group) notUnderstood() group {
	one := group{value: g.value, devices: min(g.devices, 1)}
	for _, devices := range g.bySlot {
		one.bySlot = append(one.bySlot, min(devices, 1))
	}
	return one
}

// satisfiesEach reports whether there are enough devices for each request if it were
// alone.
func (a *agreement) satisfiesEach(g *group) bool {
	for i := range a.covered {
		if i >= len(g.bySlot) || g.bySlot[i] < a.covered[i].wanted {
			return false
		}
	}
	return true
}

// enough reports whether there may be enough devices in a group for all requests.
func (a *agreement) enough(g *group) bool {
	return g.devices >= a.wanted && (a.constraint == nil || a.constraint.distinct || a.satisfiesEach(g))
}
