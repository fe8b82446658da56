package quartermaster

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/eligibility"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/internal/queue"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Hints holds the hints of one profile of the scheduler.
type Hints struct {
	Needs *eligibility.Finder
	// Waiting handles the events that the queue does not: its Pods are the rejected pods, and its Context limits the
	// evaluation of selectors.
	Waiting   *queue.Events
	Solver    *allocator.Solver
	Inventory *inventory.Store
	// Rules decides which claims pods can use.
	Rules *eligibility.Rules
}

// afterClassChange wakes pods with a claim that refers to the class, if more than metadata changed.
func (h *Hints) afterClassChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	class, ok := newObj.(*resourceapi.DeviceClass)
	if !ok {
		return fwk.Queue, nil
	}
	old, changed := oldObj.(*resourceapi.DeviceClass)
	if changed && quantity.DeepEqual(&old.Spec, &class.Spec) && conversion.SameAlphaClass(old, class) {
		return fwk.QueueSkip, nil
	}
	if h.Needs.Of(pod).DependsOnClass(old, class) {
		return fwk.Queue, nil
	}
	claims, err := h.claimsWanted(pod)
	if err != nil {
		return fwk.QueueSkip, nil
	}
	for name := range h.Solver.Prepare(podclaims.Unallocated(claims)).Classes() {
		if name == class.Name {
			return fwk.Queue, nil
		}
	}
	return fwk.QueueSkip, nil
}

// afterNodeChange wakes a pod if the changed node may have the devices that it waits for.
func (h *Hints) afterNodeChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	node, ok := newObj.(*v1.Node)
	if !ok {
		return fwk.Queue, nil
	}
	needs := h.Needs.Of(pod)
	if needs.Backed() || h.lacksRoom(pod) {
		return fwk.Queue, nil
	}
	if old, ok := oldObj.(*v1.Node); ok && apiequality.Semantic.DeepEqual(old.Labels, node.Labels) &&
		apiequality.Semantic.DeepEqual(old.Status.DeclaredFeatures, node.Status.DeclaredFeatures) {
		return fwk.QueueSkip, nil // Only the allocatable resources changed.
	}
	claims, err := needs.Claims()
	if err != nil {
		return fwk.QueueSkip, nil
	}
	return hint(needs.DependsOnController(claims) || h.mayRunOn(node, pod, claims))
}

// lacksRoom reports whether the latest attempt found a node without the resources that devices would take of it.
func (h *Hints) lacksRoom(pod *v1.Pod) bool {
	entry := h.Waiting.Pods.Get(pod.UID)
	return entry != nil && entry.LacksRoom()
}

// mayRunOn reports whether all allocations can be used on the node, and whether the node has a pool that the
// unallocated claims could use.
func (h *Hints) mayRunOn(node *v1.Node, pod *v1.Pod, claims []*resourceapi.ResourceClaim) bool {
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		if checked, err := h.Rules.Check(pod, claim); err != nil || !checked.UsableOn(node) {
			return false
		}
	}
	missing := podclaims.Unallocated(claims)
	if len(missing) == 0 {
		return true
	}
	task := h.Solver.Prepare(missing)
	for _, pool := range h.Inventory.OnNode(node) {
		if task.Interested(h.Waiting.Context, pool) {
			return true
		}
	}
	return false
}

// afterTargetPodUpdate wakes a pod whose claims all exist now.
func (h *Hints) afterTargetPodUpdate(_ klog.Logger, _ *v1.Pod, _, newObj any) (fwk.QueueingHint, error) {
	pod, ok := newObj.(*v1.Pod)
	return hint(!ok || h.Needs.Claims.Check(pod) == nil)
}

// claimsWanted returns the claims of a pod, including the claim that the latest attempt would have made for its
// extended resources.
func (h *Hints) claimsWanted(pod *v1.Pod) ([]*resourceapi.ResourceClaim, error) {
	claims, err := h.Needs.Of(pod).Claims()
	if err != nil {
		return nil, err
	}
	if entry := h.Waiting.Pods.Get(pod.UID); entry != nil {
		if claim, _ := entry.WantedExtended(); claim != nil {
			claims = append(claims, claim)
		}
	}
	return claims, nil
}

// hint turns a condition into a hint.
func hint(mayHelp bool) (fwk.QueueingHint, error) {
	if mayHelp {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}
