package inventory

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// isMixed reports whether a slice has both devices and shared counters. Kubernetes 1.33 and 1.34
// require that: devices consume from the sets of their own slice, and sets of two slices may have
// the same name. From 1.35 on, a slice has one or the other, and the sets belong to the pool.
func isMixed(published *resourceapi.ResourceSlice) bool {
	return len(published.Spec.SharedCounters) > 0 && len(published.Spec.Devices) > 0
}

// withOwnCounters prefixes the counter sets of a mixed slice with the name of the slice, so that
// their names are unique in the pool. Other slices are returned unchanged. Names of sets contain no
// slash, so that no other name can be equal by chance. The published slice is not changed.
func withOwnCounters(published *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	if !isMixed(published) {
		return published
	}
	own := func(set string) string { return published.Name + "/" + set }
	scoped := *published
	scoped.Spec.SharedCounters = slices.Clone(published.Spec.SharedCounters)
	for i := range scoped.Spec.SharedCounters {
		scoped.Spec.SharedCounters[i].Name = own(scoped.Spec.SharedCounters[i].Name)
	}
	scoped.Spec.Devices = slices.Clone(published.Spec.Devices)
	for i := range scoped.Spec.Devices {
		device := &scoped.Spec.Devices[i]
		device.ConsumesCounters = slices.Clone(device.ConsumesCounters)
		for j := range device.ConsumesCounters {
			device.ConsumesCounters[j].CounterSet = own(device.ConsumesCounters[j].CounterSet)
		}
	}
	return &scoped
}
