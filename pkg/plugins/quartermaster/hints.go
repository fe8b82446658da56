package quartermaster

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/pkg/apiversions"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// sliceVersions returns the slice before and after an event, nil if there was none.
// Taints of taint rules are part of them.
func sliceVersions(oldObj, newObj any) (before, after *resourceapi.ResourceSlice) {
	if tombstone, ok := oldObj.(cache.DeletedFinalStateUnknown); ok {
		oldObj = tombstone.Obj
	}
	before, _ = oldObj.(*resourceapi.ResourceSlice)
	after, _ = newObj.(*resourceapi.ResourceSlice)
	return before, after
}

// sliceEvent is what was found out about an event when the first of many pods was
// asked about it.
type sliceEvent struct {
	before, after *resourceapi.ResourceSlice
	matters       bool
}

// sliceChangeMatters reports whether more than metadata changed. Before that it
// brings the inventory up to date: the slice, and the taint rules because one of
// them may be the reason for the event. So a pod that is woken finds the event in
// the inventory.
//
// This is no PreQueueingHintFn because a plugin that has one for slices would keep
// the scheduler from asking other plugins that have none.
func (pl *Quartermaster) sliceChangeMatters(before, after *resourceapi.ResourceSlice) bool {
	if last := pl.lastSlice.Load(); last != nil && last.before == before && last.after == after {
		return last.matters
	}
	for _, slice := range []*resourceapi.ResourceSlice{before, after} {
		if slice != nil {
			pl.state.refreshSlice(slice.Name)
		}
	}
	pl.state.refreshRules()
	matters := before == nil || after == nil || !apiequality.Semantic.DeepEqual(&before.Spec, &after.Spec)
	pl.lastSlice.Store(&sliceEvent{before, after, matters})
	return matters
}

// isSchedulableAfterSliceChange wakes a pod if the pool has devices that it could use.
func (pl *Quartermaster) isSchedulableAfterSliceChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after := sliceVersions(oldObj, newObj)
	if before == nil && after == nil {
		return fwk.Queue, nil
	}
	if !pl.sliceChangeMatters(before, after) {
		return fwk.QueueSkip, nil
	}
	claims, err := pl.claimsWanted(pod)
	if err != nil {
		return fwk.QueueSkip, nil
	}
	pools := make(map[inventory.PoolID][]string)
	for _, slice := range []*resourceapi.ResourceSlice{before, after} {
		if slice != nil {
			pools[inventory.PoolID{Driver: slice.Spec.Driver, Name: slice.Spec.Pool.Name}] = nil
		}
	}
	return hint(pl.couldUse(claims, pools))
}

// isSchedulableAfterClassChange wakes the pods with a claim that refers to the class,
// if more than metadata changed.
func (pl *Quartermaster) isSchedulableAfterClassChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	class, ok := newObj.(*resourceapi.DeviceClass)
	if !ok {
		return fwk.Queue, nil
	}
	if old, ok := oldObj.(*resourceapi.DeviceClass); ok && apiequality.Semantic.DeepEqual(&old.Spec, &class.Spec) && apiversions.SameAlphaClass(old, class) {
		return fwk.QueueSkip, nil
	}
	if pl.dependsOnAlphaClass(pod, class.Name) {
		return fwk.Queue, nil
	}
	if pl.mayServe(pod, oldObj, class) {
		return fwk.Queue, nil
	}
	claims, err := pl.claimsWanted(pod)
	if err != nil {
		return fwk.QueueSkip, nil
	}
	for name := range pl.solver.Prepare(unallocated(claims)).Classes() {
		if name == class.Name {
			return fwk.Queue, nil
		}
	}
	return fwk.QueueSkip, nil
}

// isSchedulableAfterNodeChange wakes a pod if the node, as it is now, may have what
// the pod waits for.
func (pl *Quartermaster) isSchedulableAfterNodeChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	node, ok := newObj.(*v1.Node)
	if !ok {
		return fwk.Queue, nil
	}
	if servedByClass(pl.extendedResources(pod)) {
		return fwk.Queue, nil
	}
	if old, ok := oldObj.(*v1.Node); ok && apiequality.Semantic.DeepEqual(old.Labels, node.Labels) &&
		apiequality.Semantic.DeepEqual(old.Status.DeclaredFeatures, node.Status.DeclaredFeatures) {
		return fwk.QueueSkip, nil // Only the allocatable resources changed.
	}
	claims, err := pl.claimsOf(pod)
	if err != nil {
		return fwk.QueueSkip, nil
	}
	return hint(pl.dependsOnController(claims) || pl.mayRunOn(node, pod, claims))
}

// mayRunOn reports whether all allocations can be used on the node, and whether
// there is a pool on it that the claims without allocation could use.
func (pl *Quartermaster) mayRunOn(node *v1.Node, pod *v1.Pod, claims []*resourceapi.ResourceClaim) bool {
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		podClaim, status := pl.checkClaim(pod, claim, nil)
		if status != nil || !podClaim.usableOn(node) {
			return false
		}
	}
	missing := unallocated(claims)
	if len(missing) == 0 {
		return true
	}
	task := pl.solver.Prepare(missing)
	for _, pool := range pl.state.inventory.OnNode(node) {
		if task.Interested(pl.eventContext, pool) {
			return true
		}
	}
	return false
}

func unallocated(claims []*resourceapi.ResourceClaim) []*resourceapi.ResourceClaim {
	var result []*resourceapi.ResourceClaim
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			result = append(result, claim)
		}
	}
	return result
}
