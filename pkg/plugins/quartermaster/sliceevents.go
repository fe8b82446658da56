package quartermaster

import (
	"cmp"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/tools/cache"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

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
	pl.state.refreshRules()
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

// versionsOf returns the object before and after an event, nil if there was none.
func versionsOf[T any](oldObj, newObj any) (before, after *T) {
	if tombstone, ok := oldObj.(cache.DeletedFinalStateUnknown); ok {
		oldObj = tombstone.Obj
	}
	before, _ = oldObj.(*T)
	after, _ = newObj.(*T)
	return before, after
}

// wakeForDevices wakes the pods that could use any of the devices, which are listed as
// for couldUse. The scheduling queue would try those with the highest priority first, so
// these come first if not all may be woken at once.
func (pl *Quartermaster) wakeForDevices(devices map[inventory.PoolID][]string) {
	var interested []*waitingPod
	for _, entry := range pl.waiting.all() {
		_, task := entry.wanted()
		switch {
		case task == nil:
			entry.missIfOpen()
		case !pl.couldUse(task, devices):
		case entry.isActive():
			pl.waker.wakeLater(entry)
		default:
			interested = append(interested, entry)
		}
	}
	slices.SortFunc(interested, byPriority)
	for _, entry := range interested {
		pl.waker.wake(entry)
	}
}

// wakeForSlices is wakeForDevices for devices that were published, changed or withdrawn.
// It also wakes the pods that other devices than they could use may have kept from a node;
// these after their pause, because there may be many such events that do not help.
func (pl *Quartermaster) wakeForSlices(devices map[inventory.PoolID][]string) {
	pl.wakeForDevices(devices)
	for _, entry := range pl.waiting.all() {
		if _, task := entry.wanted(); entry.sliceHappened() && (task == nil || task.Err() == nil) {
			pl.waker.wakeAfterPause(entry)
		}
	}
}

// byPriority compares pods by priority and, if it is the same, by age.
func byPriority(a, b *waitingPod) int {
	one, _ := a.latest()
	other, _ := b.latest()
	return cmp.Or(
		cmp.Compare(corev1helpers.PodPriority(other), corev1helpers.PodPriority(one)),
		one.CreationTimestamp.Compare(other.CreationTimestamp.Time),
	)
}
