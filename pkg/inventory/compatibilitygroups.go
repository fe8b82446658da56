package inventory

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// CompatibilityGroups are what the devices that draw from one counter set have in common: only
// devices with a compatibility group in common may do so at the same time, and devices
// without groups only with others without (DRADeviceCompatibilityGroups). The zero value
// stands for no devices.
type CompatibilityGroups struct {
	occupied bool
	// torn is set if the devices in use should never have got together. Nobody
	// can join them.
	torn bool
	// common are the groups that all devices have; empty means that none has any.
	common []string
}

// Join returns the state with one more device, and whether the device may join.
func (g CompatibilityGroups) Join(groups []string) (CompatibilityGroups, bool) {
	switch {
	case g.torn:
		return g, false
	case !g.occupied:
		return CompatibilityGroups{occupied: true, common: groups}, true
	case len(groups) == 0 || len(g.common) == 0:
		return g, len(groups) == len(g.common)
	}
	var common []string
	for _, group := range g.common {
		if slices.Contains(groups, group) {
			common = append(common, group)
		}
	}
	return CompatibilityGroups{occupied: true, common: common}, len(common) > 0
}

// Force is Join for a device that already is there, whether it should or not.
func (g CompatibilityGroups) Force(groups []string) CompatibilityGroups {
	if g.occupied && (len(groups) == 0 || len(g.common) == 0) {
		return g
	}
	joined, ok := g.Join(groups)
	joined.torn = !ok
	return joined
}

// Equal reports whether the same devices could join.
func (g CompatibilityGroups) Equal(other CompatibilityGroups) bool {
	return g.occupied == other.occupied && g.torn == other.torn && slices.Equal(g.common, other.common)
}

// compatibilityGroupsKey is where a pool keeps whether it has compatibility groups.
type compatibilityGroupsKey struct{}

// HasCompatibilityGroups reports whether any device of the pool has compatibility groups,
// wherever it is. Most have not.
func (p *NodePool) HasCompatibilityGroups() bool {
	return Cached(&p.Derived, compatibilityGroupsKey{}, func() bool {
		return slices.ContainsFunc(p.Devices, Device.hasCompatibilityGroups) ||
			p.whole != nil && p.whole != p.Layout && slices.ContainsFunc(p.whole.Devices, Device.hasCompatibilityGroups)
	})
}

func (d Device) hasCompatibilityGroups() bool { return HaveCompatibilityGroups(d.ConsumesCounters) }

// HaveCompatibilityGroups reports whether any of a device's consumptions has compatibility groups.
func HaveCompatibilityGroups(consumptions []resourceapi.DeviceCounterConsumption) bool {
	for i := range consumptions {
		if len(consumptions[i].CompatibilityGroups) > 0 {
			return true
		}
	}
	return false
}
