package write

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/internal/kube/podutil"
)

// Unbound is evidence that a consumer of a claim is not on a node. Whatever takes a reservation or an
// allocation away demands it, because an attempt to schedule a pod can fail although the pod is bound: the
// answer to the binding was lost, or another scheduler had bound the pod and the informer did not know yet.
// Such a pod runs and needs its claims.
//
// Only Ask, Ended and Deleted give it. The zero value is evidence about no consumer.
type Unbound struct {
	consumer types.UID
	// claim is the only claim that it holds for, "" for all claims.
	claim types.UID
	// again asks once more. It is nil if the consumer can never be bound any more.
	again func(context.Context) error
}

// ErrBound means that a consumer of the claim is on a node, so that nothing may be taken from it.
var ErrBound = errors.New("the consumer has been bound to a node")

// UnlessBound returns nil for ErrBound, for callers that then leave the claim alone, and otherwise the error.
func UnlessBound(err error) error {
	if errors.Is(err, ErrBound) {
		return nil
	}
	return err
}

// Consumer returns the UID of the consumer that it is about, "" if there is none.
func (u Unbound) Consumer() types.UID { return u.consumer }

// An Asker asks the server whether a consumer of a claim is on a node. Writer implements it.
type Asker interface {
	Ask(ctx context.Context, claim *resourceapi.ResourceClaim, consumer resourceapi.ResourceClaimConsumerReference) (Unbound, error)
}

// Ask asks the server whether a consumer of the claim is on a node. If it is, the error is ErrBound; any
// other error says that nobody knows. A PodGroup is on a node if one of its pods uses the claim there and has
// not ended. A pod that is gone, or was replaced by another one of that name, is not on a node.
//
// The evidence is not final: the server may carry out a binding whose connection was cut even after a later
// read, and nothing could stop it. The pod is then on a node without its claims, where the kubelet does not
// start it.
//
// Ask continues when ctx is cancelled, like all operations that undo something, for at most UndoTimeout a request: the pods of a
// PodGroup can be many.
func (w *Writer) Ask(ctx context.Context, claim *resourceapi.ResourceClaim, consumer resourceapi.ResourceClaimConsumerReference) (Unbound, error) {
	unbound := Unbound{consumer: consumer.UID}
	switch {
	case dra.IsPod(consumer):
		unbound.again = func(ctx context.Context) error { return w.checkPod(ctx, claim.Namespace, consumer) }
	case dra.IsPodGroup(consumer):
		unbound.claim = claim.UID
		unbound.again = func(ctx context.Context) error { return w.checkGroup(ctx, claim, consumer) }
	default:
		return Unbound{}, fmt.Errorf("claim %s/%s: asked whether %s is on a node; found neither a pod nor a PodGroup; the controller that reserved the claim for it has to release it",
			claim.Namespace, claim.Name, describeConsumer(consumer))
	}
	if err := unbound.Holds(ctx); err != nil {
		return Unbound{}, err
	}
	return unbound, nil
}

// OfPod returns the reference by which a claim is reserved for a pod.
func OfPod(pod *v1.Pod) resourceapi.ResourceClaimConsumerReference {
	return resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID}
}

// Ended returns evidence from the pod as the server has it, false if there is none. No container of the pod
// runs or ever will, as far as the node has said: the pod has ended, or it is being deleted and was never
// bound. The API server does not bind a pod that is being deleted. That a pod has ended may also be written by
// others, for a node that does not answer.
func Ended(pod *v1.Pod) (Unbound, bool) {
	if podutil.IsPodTerminal(pod) && !anyRuns(pod) || pod.DeletionTimestamp != nil && pod.Spec.NodeName == "" {
		return Unbound{consumer: pod.UID}, true
	}
	return Unbound{}, false
}

// Deleted returns evidence from the last state of a pod that is gone, false if there is none. It must be the
// state in which the pod was deleted, not an earlier one: the pod may have been bound since, and deleted
// without waiting for its node.
func Deleted(last *v1.Pod) (Unbound, bool) {
	if last.Spec.NodeName == "" {
		return Unbound{consumer: last.UID}, true
	}
	return Ended(last)
}

// Pod returns the pod of that name as the server has it, nil if there is none.
func (w *Writer) Pod(ctx context.Context, namespace, name string) (*v1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, UndoTimeout)
	defer cancel()
	// A list of one pod needs no other permission than the informer of pods.
	found, err := w.server.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String(),
	})
	if err != nil {
		return nil, err
	}
	for i := range found.Items {
		if found.Items[i].Name == name {
			return &found.Items[i], nil
		}
	}
	return nil, nil
}

// anyRuns reports whether the node has said of a container that it runs, and not that it has ended.
func anyRuns(pod *v1.Pod) bool {
	runs := func(container v1.ContainerStatus) bool { return container.State.Running != nil }
	return slices.ContainsFunc(pod.Status.ContainerStatuses, runs) || slices.ContainsFunc(pod.Status.InitContainerStatuses, runs) ||
		slices.ContainsFunc(pod.Status.EphemeralContainerStatuses, runs)
}

// Holds asks again. It returns ErrBound if the evidence does not hold any more, and another error if nobody knows.
func (u Unbound) Holds(ctx context.Context) error {
	if u.again == nil {
		return nil
	}
	return u.again(context.WithoutCancel(ctx))
}

// check returns an error if the evidence is about no consumer, or about another claim than that of the
// operation.
func (u Unbound) check(op *operation) error {
	if u.consumer == "" || u.claim != "" && u.claim != op.claim.UID {
		return fmt.Errorf("claim %s: asked to %s but evidence that the consumer is not bound has to be given, for this claim; this is a bug in the caller", op.key(), op.asked)
	}
	return nil
}

// checkPod returns ErrBound if the pod is on a node.
func (w *Writer) checkPod(ctx context.Context, namespace string, consumer resourceapi.ResourceClaimConsumerReference) error {
	pod, err := w.Pod(ctx, namespace, consumer.Name)
	switch {
	case err != nil:
		return fmt.Errorf("find out whether pod %s/%s has been bound: %w", namespace, consumer.Name, err)
	case pod != nil && pod.UID == consumer.UID && pod.Spec.NodeName != "":
		return fmt.Errorf("%w: pod %s/%s is on node %s and needs its claims", ErrBound, namespace, consumer.Name, pod.Spec.NodeName)
	default:
		return nil
	}
}

// perPage limits the size of a page when the pods on nodes are listed.
const perPage = 500

// checkGroup returns ErrBound if a pod of the PodGroup uses the claim on a node and has not ended.
func (w *Writer) checkGroup(ctx context.Context, claim *resourceapi.ResourceClaim, consumer resourceapi.ResourceClaimConsumerReference) error {
	member, err := w.Member(ctx, claim, consumer.Name, true, Any)
	switch {
	case err != nil:
		return fmt.Errorf("find out whether pods of PodGroup %s/%s have been bound: %w", claim.Namespace, consumer.Name, err)
	case member != nil:
		return fmt.Errorf("%w: pod %s/%s of PodGroup %s is on node %s and needs claim %s", ErrBound, member.Namespace, member.Name, consumer.Name, member.Spec.NodeName, claim.Name)
	default:
		return nil
	}
}

// checkGroupExists returns ErrConsumerGone if the server does not have the PodGroup for which a claim was just reserved. The finalizer
// of a PodGroup does not keep it until its pods have ended if it is deleted before the controller of the finalizer knows of them
// (KEP-5729 has the claim released then), and the informer may still have it.
func (w *Writer) checkGroupExists(ctx context.Context, op *operation, consumer resourceapi.ResourceClaimConsumerReference) error {
	// A list of one needs no other permission than the informer.
	found, err := w.server.SchedulingV1beta1().PodGroups(op.claim.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, consumer.Name).String(),
	})
	if err != nil {
		return fmt.Errorf("claim %s: find out whether the server still has PodGroup %s: %w", op.key(), consumer.Name, err)
	}
	if !slices.ContainsFunc(found.Items, func(group kube.PodGroup) bool { return group.UID == consumer.UID }) {
		return refusal{
			reason: ErrConsumerGone,
			found:  "that the server does not have this PodGroup any more",
			next:   "the pod waits until the PodGroup is created again",
		}.asError(op)
	}
	return nil
}

// Member returns a pod of a PodGroup, as the server has it, that uses the claim, has not ended and counts; nil if there is none. With
// onNode, pods that are not on a node do not count.
func (w *Writer) Member(ctx context.Context, claim *resourceapi.ResourceClaim, podGroup string, onNode bool, counts func(*v1.Pod) bool) (*v1.Pod, error) {
	options := metav1.ListOptions{Limit: perPage}
	if onNode {
		options.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	}
	for {
		found, err := w.page(ctx, claim.Namespace, options)
		if err != nil {
			return nil, err
		}
		for i := range found.Items {
			member := &found.Items[i]
			if (member.Spec.NodeName != "" || !onNode) && !podutil.IsPodTerminal(member) && dra.PodGroupName(member) == podGroup && usesClaim(member, claim.Name) &&
				counts(member) {
				return member, nil
			}
		}
		if options.Continue = found.Continue; options.Continue == "" {
			return nil, nil
		}
	}
}

// Any counts all pods.
func Any(*v1.Pod) bool { return true }

// page returns some of the pods of a namespace.
func (w *Writer) page(ctx context.Context, namespace string, options metav1.ListOptions) (*v1.PodList, error) {
	ctx, cancel := context.WithTimeout(ctx, UndoTimeout)
	defer cancel()
	return w.server.CoreV1().Pods(namespace).List(ctx, options)
}

func usesClaim(pod *v1.Pod, claim string) bool {
	for name := range resourceclaim.PodClaims(pod) {
		if name == claim {
			return true
		}
	}
	return false
}
