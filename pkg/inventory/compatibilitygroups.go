package inventory

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// CompatibilityGroups is the combined state of the devices that consume from one counter set
// (DRADeviceCompatibilityGroups). Only devices with a compatibility group in common may consume
// from it at the same time, and devices without groups only with others without. The zero value
// stands for no devices.
type CompatibilityGroups struct {
	occupied bool
	// torn is set if the devices in use are not compatible with each other. No other device can
	// then join them.
	torn bool
	// common holds the groups that all devices share; empty means that no device has groups.
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

// Force is Join for a device that is already in use, compatible or not.
func (g CompatibilityGroups) Force(groups []string) CompatibilityGroups {
	if g.occupied && (len(groups) == 0 || len(g.common) == 0) {
		return g
	}
	joined, ok := g.Join(groups)
	joined.torn = !ok
	return joined
}

// Equal reports whether the same devices could join both.
func (g CompatibilityGroups) Equal(other CompatibilityGroups) bool {
	return g.occupied == other.occupied && g.torn == other.torn && slices.Equal(g.common, other.common)
}

// compatibilityGroupsKey is the cache key for whether a pool has compatibility groups.
type compatibilityGroupsKey struct{}

// HasCompatibilityGroups reports whether any device of the pool, on any node, has compatibility
// groups. Most pools have none.
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
