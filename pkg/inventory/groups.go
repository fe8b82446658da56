package inventory

import "slices"

// Groups are what the devices that draw from one counter set have in common: only
// devices with a compatibility group in common may do so at the same time, and devices
// without groups only with others without (DRADeviceCompatibilityGroups). The zero value
// stands for no devices.
type Groups struct {
	occupied bool
	// torn is set if the devices in use should never have got together. Nobody
	// can join them.
	torn bool
	// common are the groups that all devices have; empty means that none has any.
	common []string
}

// Join returns the state with one more device, and whether the device may join.
func (g Groups) Join(groups []string) (Groups, bool) {
	switch {
	case g.torn:
		return g, false
	case !g.occupied:
		return Groups{occupied: true, common: groups}, true
	case len(groups) == 0 || len(g.common) == 0:
		return g, len(groups) == len(g.common)
	}
	var common []string
	for _, group := range g.common {
		if slices.Contains(groups, group) {
			common = append(common, group)
		}
	}
	return Groups{occupied: true, common: common}, len(common) > 0
}

// Force is Join for a device that already is there, whether it should or not.
func (g Groups) Force(groups []string) Groups {
	if g.occupied && (len(groups) == 0 || len(g.common) == 0) {
		return g
	}
	joined, ok := g.Join(groups)
	joined.torn = !ok
	return joined
}

// Equal reports whether the same devices could join.
func (g Groups) Equal(other Groups) bool {
	return g.occupied == other.occupied && g.torn == other.torn && slices.Equal(g.common, other.common)
}

// groupsKey is where a pool keeps whether it has compatibility groups.
type groupsKey struct{}

// HasGroups reports whether any device of the pool has compatibility groups, wherever it
// is. Most have not.
func (p *NodePool) HasGroups() bool {
	return Cached(&p.Derived, groupsKey{}, func() bool {
		return slices.ContainsFunc(p.Devices, Device.hasGroups) ||
			p.whole != nil && p.whole != p.Layout && slices.ContainsFunc(p.whole.Devices, Device.hasGroups)
	})
}

func (d Device) hasGroups() bool {
	for i := range d.ConsumesCounters {
		if len(d.ConsumesCounters[i].CompatibilityGroups) > 0 {
			return true
		}
	}
	return false
}
