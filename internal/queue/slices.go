package queue

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// FollowSlices wakes the pods that a change of slices may help and, if these are in use, of taint rules.
// Like FollowClaims, it refreshes the state first, and does not use the scheduling queue: the queue
// reports an event only to pods that wait or are being tried. A pod that is about to be tried could
// still find a state without the event, if this handler has not run yet, and would be put to sleep.
func (e *Events) FollowSlices(informers resourceinformers.Interface, withRules bool) error {
	_, err := informers.ResourceSlices().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { e.SliceHappened(nil, obj) },
		UpdateFunc: e.SliceHappened,
		DeleteFunc: func(obj any) { e.SliceHappened(obj, nil) },
	})
	if err == nil && withRules {
		// A new rule only takes devices away.
		_, err = informers.DeviceTaintRules().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			UpdateFunc: e.RuleHappened,
			DeleteFunc: func(obj any) { e.RuleHappened(obj, nil) },
		})
	}
	if err != nil {
		return fmt.Errorf("watch slices and taint rules: %w", err)
	}
	return nil
}

// SliceHappened wakes pods if more than the slice's metadata changed. The end of a slice can make a
// pool complete or valid.
func (e *Events) SliceHappened(oldObj, newObj any) {
	before, after := informer.Versions[resourceapi.ResourceSlice](oldObj, newObj)
	pools := make(map[inventory.PoolID][]string)
	for _, slice := range []*resourceapi.ResourceSlice{before, after} {
		if slice != nil {
			e.State.RefreshSlice(slice.Name)
			pools[inventory.PoolID{Driver: slice.Spec.Driver, Name: slice.Spec.Pool.Name}] = nil
		}
	}
	if e.Pods.Empty() {
		return // Slices are large to compare.
	}
	if before == nil || after == nil || !quantity.DeepEqual(&before.Spec, &after.Spec) {
		e.wakeForSlices(pools)
	}
}

// RuleHappened wakes the pods that the change or deletion of a taint rule may help.
func (e *Events) RuleHappened(oldObj, newObj any) {
	before, after := informer.Versions[resourceapi.DeviceTaintRule](oldObj, newObj)
	for _, rule := range []*resourceapi.DeviceTaintRule{before, after} {
		if rule != nil {
			e.State.RefreshTaintRule(rule.Name)
		}
	}
	if before == nil || after == nil || !quantity.DeepEqual(&before.Spec, &after.Spec) {
		e.WakeForDevices(devicesOfRule(before))
	}
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
