package explain

import "github.com/quartermaster-dra/quartermaster/internal/attribute"

// agreeing counts the devices with a common value.
type agreeing struct {
	value   attribute.Value
	devices int
	// bySlot is the number of these devices that each covered request could have alone.
	bySlot []int
}

// valueCounts counts devices by value, in the order in which values are met.
type valueCounts struct {
	order   []attribute.Value
	byValue map[attribute.Value]*agreeing
	slots   int
}

func (g *valueCounts) of(v attribute.Value) *agreeing {
	if g.byValue[v] == nil {
		g.byValue[v] = &agreeing{value: v, bySlot: make([]int, g.slots)}
		g.order = append(g.order, v)
	}
	return g.byValue[v]
}

// add counts a device.
func (g *valueCounts) add(values []attribute.Value) {
	for _, v := range values {
		g.of(v).devices++
	}
}

// addTo counts a device for a request.
func (g *valueCounts) addTo(slot int, values []attribute.Value) {
	for _, v := range values {
		g.of(v).bySlot[slot]++
	}
}

// greatest returns the value with the most devices, the first of equal ones. For distinctAttribute it returns
// the number of values. Values with enough devices in total and for each request come first, then those with
// enough for each request.
func (g *valueCounts) greatest(a *agreement) agreeing {
	if a.constraint != nil && a.constraint.distinct {
		return agreeing{devices: len(g.order)}
	}
	best, bestRank := agreeing{}, 0
	for _, v := range g.order {
		one := *g.byValue[v]
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

// notUnderstood returns the count for devices with a value of an unknown type. They agree with no device, not
// even among themselves.
func (g *agreeing) notUnderstood() agreeing {
	one := agreeing{value: g.value, devices: min(g.devices, 1)}
	for _, devices := range g.bySlot {
		one.bySlot = append(one.bySlot, min(devices, 1))
	}
	return one
}

// satisfiesEach reports whether there are enough devices for each request alone.
func (a *agreement) satisfiesEach(g *agreeing) bool {
	for i := range a.covered {
		if i >= len(g.bySlot) || g.bySlot[i] < a.covered[i].wanted {
			return false
		}
	}
	return true
}

// enough reports whether there may be enough devices with a common value for all requests.
func (a *agreement) enough(g *agreeing) bool {
	return g.devices >= a.wanted && (a.constraint == nil || a.constraint.distinct || a.satisfiesEach(g))
}
