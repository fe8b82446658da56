package inventory

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// isMixed reports whether a slice has devices and shared counters at once. Kubernetes 1.33 and
// 1.34 want it so: the devices draw from the sets of their own slice, and sets of two slices may
// have the same name. From 1.35 on, a slice has either, and sets are the pool's.
func isMixed(published *resourceapi.ResourceSlice) bool {
	return len(published.Spec.SharedCounters) > 0 && len(published.Spec.Devices) > 0
}

// withOwnCounters gives the counter sets of a mixed slice names that no other slice of the pool
// has, with the name of the slice in front; everything else is returned as it is. A slash is in
// no name of a set, so that none is met by chance. What others see of the slice stays.
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
