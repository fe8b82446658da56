package allocator_test

import (
	"cmp"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// oraclePool is the part of a pool that a node sees.
type oraclePool struct {
	key     poolKey
	trouble string // "incomplete", "invalid" or ""
	// here are the slices for the node, elsewhere the others of the generation.
	here, elsewhere []*resourceapi.ResourceSlice
}

// poolsOf lists the pools that the node sees, in the order in which they are tried.
func poolsOf(s scenario) []oraclePool {
	byKey := make(map[poolKey][]*resourceapi.ResourceSlice)
	for _, slice := range s.slices {
		byKey[poolOf(slice)] = append(byKey[poolOf(slice)], slice)
	}
	var pools []oraclePool
	for key, all := range byKey {
		slices.SortFunc(all, func(a, b *resourceapi.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
		if pool, visible := poolFrom(s, key, all); visible {
			pools = append(pools, pool)
		}
	}
	slices.SortFunc(pools, func(a, b oraclePool) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.key.driver, b.key.driver), cmp.Compare(a.key.name, b.key.name))
	})
	return pools
}

// rank is greater for pools whose devices may have to be attached first.
func (p oraclePool) rank() int {
	for _, d := range devicesIn(p.here) {
		if p.trouble == "" && d.BindingConditions != nil {
			return 1
		}
	}
	return 0
}

func poolFrom(s scenario, key poolKey, all []*resourceapi.ResourceSlice) (oraclePool, bool) {
	pool := oraclePool{key: key}
	newest := int64(-1)
	for _, slice := range all {
		if visible(s, slice) {
			newest = max(newest, slice.Spec.Pool.Generation)
		}
	}
	newestAnywhere := int64(-1)
	for _, slice := range all {
		newestAnywhere = max(newestAnywhere, slice.Spec.Pool.Generation)
		switch {
		case slice.Spec.Pool.Generation != newest || hasUnknownGroups(s, slice):
		case visible(s, slice):
			pool.here = append(pool.here, slice)
		default:
			pool.elsewhere = append(pool.elsewhere, slice)
		}
	}
	if newest < 0 {
		return pool, false
	}
	want := int(pool.here[0].Spec.Pool.ResourceSliceCount)
	switch {
	case len(pool.here) == want:
		pool.elsewhere = nil // Then these slices are not part of the pool.
	case newestAnywhere > newest:
		return pool, false // The driver is about to replace the slices that the node still sees.
	case len(pool.here)+len(pool.elsewhere) != want:
		pool.trouble = "incomplete"
		return pool, true
	}
	if contradicts(s, pool) {
		pool.trouble = "invalid"
	}
	return pool, true
}

// visible reports whether a slice is supported and has devices or counters for the node.
func visible(s scenario, slice *resourceapi.ResourceSlice) bool {
	perDevice := slice.Spec.PerDeviceNodeSelection
	if hasUnknownGroups(s, slice) || !s.features.PartitionableDevices && (perDevice != nil || len(slice.Spec.SharedCounters) > 0) {
		return false
	}
	if malformed(slice) {
		return true // Perhaps.
	}
	if ptr.Deref(perDevice, false) {
		return slices.ContainsFunc(devicesIn([]*resourceapi.ResourceSlice{slice}), func(d device) bool { return reaches(s.node, d) })
	}
	return nodeMatches(s.node, slice.Spec.NodeName, slice.Spec.AllNodes, slice.Spec.NodeSelector)
}

// hasUnknownGroups tells whether a slice is not understood because a device has
// compatibility groups.
func hasUnknownGroups(s scenario, slice *resourceapi.ResourceSlice) bool {
	return !s.features.CompatibilityGroups && slices.ContainsFunc(devicesIn([]*resourceapi.ResourceSlice{slice}), func(d device) bool {
		return slices.ContainsFunc(d.ConsumesCounters, func(c resourceapi.DeviceCounterConsumption) bool { return len(c.CompatibilityGroups) > 0 })
	})
}

// contradicts tells whether a name is used twice, a counter is not defined or a node
// selector cannot be parsed.
func contradicts(s scenario, pool oraclePool) bool {
	if slices.ContainsFunc(pool.here, malformed) {
		return true
	}
	seen := make(map[structured.DeviceID]bool)
	for _, d := range devicesIn(pool.here) {
		if seen[d.id()] {
			return true
		}
		seen[d.id()] = true
	}
	if !s.features.PartitionableDevices {
		return false
	}
	all := slices.Concat(pool.here, pool.elsewhere)
	published := countersIn(all)
	sets := make(map[string]bool)
	for _, slice := range all {
		for _, set := range slice.Spec.SharedCounters {
			if sets[set.Name] {
				return true
			}
			sets[set.Name] = true
		}
	}
	for _, d := range devicesIn(all) {
		for _, consumption := range d.ConsumesCounters {
			for name := range consumption.Counters {
				if _, found := published[consumption.CounterSet][name]; !found {
					return true
				}
			}
		}
	}
	return false
}
