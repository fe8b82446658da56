package quartermaster

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/extendedresource"
	"github.com/quartermaster-dra/quartermaster/internal/legacy/hub"
	"github.com/quartermaster-dra/quartermaster/internal/podclaims"
)

// isSchedulableAfterClassChange wakes the pods with a claim that refers to the class,
// if more than metadata changed.
func (pl *Quartermaster) isSchedulableAfterClassChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	class, ok := newObj.(*resourceapi.DeviceClass)
	if !ok {
		return fwk.Queue, nil
	}
	if old, ok := oldObj.(*resourceapi.DeviceClass); ok && apiequality.Semantic.DeepEqual(&old.Spec, &class.Spec) && hub.SameAlphaClass(old, class) {
		return fwk.QueueSkip, nil
	}
	if pl.legacy.DependsOnClass(pod, class.Name) {
		return fwk.Queue, nil
	}
	if pl.mayBack(pod, oldObj, class) {
		return fwk.Queue, nil
	}
	claims, err := pl.claimsWanted(pod)
	if err != nil {
		return fwk.QueueSkip, nil
	}
	for name := range pl.solver.Prepare(podclaims.Unallocated(claims)).Classes() {
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
	if extendedresource.AnyBacked(pl.extendedResources(pod)) {
		return fwk.Queue, nil
	}
	if old, ok := oldObj.(*v1.Node); ok && apiequality.Semantic.DeepEqual(old.Labels, node.Labels) &&
		apiequality.Semantic.DeepEqual(old.Status.DeclaredFeatures, node.Status.DeclaredFeatures) {
		return fwk.QueueSkip, nil // Only the allocatable resources changed.
	}
	claims, err := pl.claims.Of(pod)
	if err != nil {
		return fwk.QueueSkip, nil
	}
	return hint(pl.legacy.DependsOnController(claims) || pl.mayRunOn(node, pod, claims))
}

// mayRunOn reports whether all allocations can be used on the node, and whether
// there is a pool on it that the claims without allocation could use.
func (pl *Quartermaster) mayRunOn(node *v1.Node, pod *v1.Pod, claims []*resourceapi.ResourceClaim) bool {
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		podClaim, status := pl.checkClaim(pod, claim, nil)
		if status != nil || !podClaim.UsableOn(node) {
			return false
		}
	}
	missing := podclaims.Unallocated(claims)
	if len(missing) == 0 {
		return true
	}
	task := pl.solver.Prepare(missing)
	for _, pool := range pl.state.Inventory.OnNode(node) {
		if task.Interested(pl.events.Context, pool) {
			return true
		}
	}
	return false
}

// isSchedulableAfterTargetPodUpdate wakes a pod whose claims are all there now.
func (pl *Quartermaster) isSchedulableAfterTargetPodUpdate(_ klog.Logger, _ *v1.Pod, _, newObj any) (fwk.QueueingHint, error) {
	pod, ok := newObj.(*v1.Pod)
	return hint(!ok || pl.claims.Check(pod) == nil)
}

// claimsWanted is claimsOf with the claim that would be made for the pod's extended
// resources, as of the latest attempt.
func (pl *Quartermaster) claimsWanted(pod *v1.Pod) ([]*resourceapi.ResourceClaim, error) {
	claims, err := pl.claims.Of(pod)
	if err != nil || !pl.features.EnableDRAExtendedResource {
		return claims, err
	}
	if entry := pl.waiting.Get(pod.UID); entry != nil {
		if claim, _ := entry.WantedExtended(); claim != nil {
			claims = append(claims, claim)
		}
	}
	return claims, nil
}

// mayBack reports whether a class stands for an extended resource of the pod, or did so
// before it changed: another class may do so now.
func (pl *Quartermaster) mayBack(pod *v1.Pod, before any, class *resourceapi.DeviceClass) bool {
	if !pl.features.EnableDRAExtendedResource {
		return false
	}
	old, changed := before.(*resourceapi.DeviceClass)
	return extendedresource.AsksFor(pod, class) || changed && extendedresource.AsksFor(pod, old)
}
