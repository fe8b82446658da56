package quartermaster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/claimwriter"
)

// errUndoing is why a pod cannot use a claim of its group for the moment.
var errUndoing = errors.New("what an earlier attempt wrote into the claim could not be undone yet; " +
	"waiting for the API server to accept that")

// reserveShared is what Reserve does besides the pod's own plan: the pod joins those that
// rely on what was planned for others of its group, and, when the group as a whole is
// known to fit, those that use the claims of the group.
func (pl *Quartermaster) reserveShared(cs fwk.CycleState, c *cycle, pod *v1.Pod) *fwk.Status {
	if pl.features.EnableGenericWorkload && podGroupName(pod) != "" && !pl.waiting.Exists(pod) {
		// The scheduler would keep it, and its devices, until the time is up that a gang
		// gets to become complete: who was deleted before it began to wait is not missed.
		return failed(errors.New("the pod was deleted or bound while its group was being scheduled"))
	}
	for _, podClaim := range c.claims {
		if podClaim.group != nil && !cs.IsPodGroupSchedulingCycle() && !pl.groups.join(podClaim.claim.UID, pod.UID) {
			return failed(fmt.Errorf("reserve claim %s for %s: %w", klog.KObj(podClaim.claim), podClaim.group.Name, errUndoing))
		}
		if podClaim.shared == nil {
			continue
		}
		if err := pl.putInFlight(c, pod.UID, podClaim, podClaim.shared); err != nil {
			return failed(err)
		}
		pl.signalInFlight(podClaim)
	}
	return nil
}

// isInUse reports whether a pod that is bound needs the reservation under which the pod
// has written to the claim.
func (pl *Quartermaster) isInUse(ctx context.Context, pod *v1.Pod, podClaim *podClaim) (bool, error) {
	if podClaim.group != nil {
		return pl.isGroupBound(ctx, pod, podClaim.claim.Name)
	}
	return pl.isBound(ctx, pod)
}

// membersPerPage bounds the answers when members of a group are looked up.
const membersPerPage = 500

// isGroupBound is isBound for the pods that share a claim of their group: it asks the
// server whether any of them is on a node.
func (pl *Quartermaster) isGroupBound(ctx context.Context, pod *v1.Pod, claim string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimwriter.UndoTimeout)
	defer cancel()
	options := metav1.ListOptions{Limit: membersPerPage, FieldSelector: fields.OneTermNotEqualSelector("spec.nodeName", "").String()}
	for {
		found, err := pl.handle.ClientSet().CoreV1().Pods(pod.Namespace).List(ctx, options)
		if err != nil {
			return false, fmt.Errorf("find out whether pods of PodGroup %s/%s have been bound: %w", pod.Namespace, podGroupName(pod), err)
		}
		for i := range found.Items {
			if member := &found.Items[i]; member.Spec.NodeName != "" && podGroupName(member) == podGroupName(pod) && usesClaim(member, claim) {
				return true, nil
			}
		}
		if options.Continue = found.Continue; options.Continue == "" {
			return false, nil
		}
	}
}

// usesClaim reports whether a pod refers to a claim of that name.
func usesClaim(pod *v1.Pod, claim string) bool {
	return slices.ContainsFunc(pod.Spec.ResourceClaims, func(reference v1.PodResourceClaim) bool {
		name, _, err := resourceclaim.Name(pod, &reference)
		return err == nil && name != nil && *name == claim
	})
}
