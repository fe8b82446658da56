package checker

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// checkCompatibility: the devices in use that draw from the same counter set have a compatibility
// group in common, or none of them has any (DRADeviceCompatibilityGroups).
func checkCompatibility(r *report, s *snapshot) {
	type counterSet struct {
		pool poolID
		name string
	}
	common := map[counterSet]sets.Set[string]{}
	reported := map[counterSet]bool{}
	for _, id := range sortedDevices(s.heldBy) {
		device, published := s.device(id)
		if !published {
			continue
		}
		for _, consumption := range device.ConsumesCounters {
			set, own := counterSet{id.pool, counterSetOf(device.slice, consumption.CounterSet)}, sets.New(consumption.CompatibilityGroups...)
			others, drawn := common[set]
			switch {
			case !drawn:
				common[set] = own
			case len(own) == 0 && len(others) == 0:
			case others.HasAny(own.UnsortedList()...):
				common[set] = others.Intersection(own)
			case !reported[set]:
				reported[set] = true
				r.violation(DevicesIncompatible, "pool "+id.pool.String(), "device %s, with compatibility groups %q, draws from counter set %s together with devices in use that have %q in common",
					id.name, slices.Sorted(slices.Values(consumption.CompatibilityGroups)), set.name, sets.List(others))
			}
		}
	}
}
