package quartermaster

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// followSlices wakes the pods that may be helped by what happens to slices and taint
// rules. Like claimEvents it brings the state up to date first, and does not use the
// scheduling queue: that tells of an event only pods which wait or are being tried. A pod
// that is about to be tried could still find a state without the event, if our own
// handler has not had its turn, and would be put to sleep.
func (pl *Quartermaster) followSlices(informers resourceinformers.Interface) error {
	_, err := informers.ResourceSlices().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { pl.sliceHappened(nil, obj) },
		UpdateFunc: pl.sliceHappened,
		DeleteFunc: func(obj any) { pl.sliceHappened(obj, nil) },
	})
	if err == nil && pl.state.rules != nil {
		// A new rule only takes devices away.
		_, err = informers.DeviceTaintRules().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			UpdateFunc: pl.ruleHappened,
			DeleteFunc: func(obj any) { pl.ruleHappened(obj, nil) },
		})
	}
	if err != nil {
		return fmt.Errorf("watch slices and taint rules: %w", err)
	}
	return nil
}

// sliceHappened wakes pods if more than metadata changed. The end of a slice can make a
// pool complete or valid.
func (pl *Quartermaster) sliceHappened(oldObj, newObj any) {
	before, after := versionsOf[resourceapi.ResourceSlice](oldObj, newObj)
	pools := make(map[inventory.PoolID][]string)
	for _, slice := range []*resourceapi.ResourceSlice{before, after} {
		if slice != nil {
			pl.state.refreshSlice(slice.Name)
			pools[inventory.PoolID{Driver: slice.Spec.Driver, Name: slice.Spec.Pool.Name}] = nil
		}
	}
	if pl.waiting.empty() {
		return // Slices are large to compare.
	}
	if before == nil || after == nil || !apiequality.Semantic.DeepEqual(&before.Spec, &after.Spec) {
		pl.wakeForSlices(pools)
	}
}

// ruleHappened wakes the pods that the change or end of a taint rule may help.
func (pl *Quartermaster) ruleHappened(oldObj, newObj any) {
	before, after := versionsOf[resourceapi.DeviceTaintRule](oldObj, newObj)
	for _, rule := range []*resourceapi.DeviceTaintRule{before, after} {
		if rule != nil {
			pl.state.refreshRule(rule.Name)
		}
	}
	if before == nil || after == nil || !apiequality.Semantic.DeepEqual(&before.Spec, &after.Spec) {
		pl.wakeForDevices(devicesOfRule(before))
	}
}

// devicesOfRule returns the devices that a rule may apply to, as couldUse takes them.
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
