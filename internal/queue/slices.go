package queue

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// SliceChanged wakes the pods that the change of a slice may help, if more than its metadata changed. The end of a slice can make a
// pool complete or valid. Like ClaimChanged, it needs a refreshed state, and does not use the scheduling queue: the queue
// reports an event only to pods that wait or are being tried. A pod that is about to be tried could
// still find a state without the event, and would be put to sleep.
func (e *Events) SliceChanged(event informer.Event[resourceapi.ResourceSlice]) {
	if e.Pods.Empty() {
		return // Slices are large to compare.
	}
	if event.Before != nil && event.After != nil && quantity.DeepEqual(&event.Before.Spec, &event.After.Spec) {
		return
	}
	pools := make(map[inventory.PoolID][]string)
	for _, slice := range []*resourceapi.ResourceSlice{event.Before, event.After} {
		if slice != nil {
			pools[inventory.PoolID{Driver: slice.Spec.Driver, Name: slice.Spec.Pool.Name}] = nil
		}
	}
	e.wakeForSlices(pools)
}

// RuleChanged wakes the pods that the change or deletion of a taint rule may help. A new rule only takes devices away.
func (e *Events) RuleChanged(event informer.Event[resourceapi.DeviceTaintRule]) {
	if event.Before == nil || event.After != nil && quantity.DeepEqual(&event.Before.Spec, &event.After.Spec) {
		return
	}
	e.WakeForDevices(devicesOfRule(event.Before))
}

// devicesOfRule returns the devices that a rule may apply to, as for CouldUse.
func devicesOfRule(rule *resourceapi.DeviceTaintRule) map[inventory.PoolID][]string {
	if rule == nil || rule.Spec.DeviceSelector == nil {
		return nil
	}
	selector := rule.Spec.DeviceSelector
	if selector.Driver == nil || selector.Pool == nil {
		return nil
	}
	id := inventory.PoolID{Driver: *selector.Driver, Name: *selector.Pool}
	if selector.Device == nil {
		return map[inventory.PoolID][]string{id: nil}
	}
	return map[inventory.PoolID][]string{id: {*selector.Device}}
}
