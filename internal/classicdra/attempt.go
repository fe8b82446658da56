package classicdra

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/classicdra/negotiation"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// Attempt is one attempt to schedule a pod with claims that controllers of drivers allocate. Check may be called
// concurrently, the other methods before or after it. It is nil for pods without such claims.
type Attempt struct {
	mode    *Mode
	pod     *v1.Pod
	classic negotiation.Attempt
	// touched is set before the first reservation.
	touched bool
}

// Split separates the pod's claims that controllers allocate, and returns the other claims. The status says why no
// node is possible at the moment.
func (m *Mode) Split(pod *v1.Pod, claims []*resourceapi.ResourceClaim) ([]*resourceapi.ResourceClaim, *Attempt, *fwk.Status) {
	if !m.negotiates() {
		return claims, nil, nil
	}
	attempt := &Attempt{mode: m, pod: pod}
	attempt.classic.Pod = pod.UID
	var others []*resourceapi.ResourceClaim
	for _, claim := range claims {
		isClassic, err := negotiation.IsClassic(claim, m.scheduler.Classes)
		if err != nil {
			return nil, nil, unschedulable(err)
		}
		if !isClassic {
			others = append(others, claim)
			continue
		}
		classicClaim, err := negotiation.NewClaim(pod.UID, referenceTo(pod, claim.Name), claim, m.scheduler.Classes)
		if err != nil {
			return nil, nil, unschedulable(err)
		}
		attempt.classic.Claims = append(attempt.classic.Claims, classicClaim)
	}
	if len(attempt.classic.Claims) == 0 {
		return claims, nil, nil
	}
	if err := m.negotiator.CheckSync(); err != nil {
		return nil, nil, kube.Failed(err)
	}
	attempt.classic.Context = m.negotiator.Context(pod)
	return others, attempt, nil
}

// Divide works like Split, without an attempt: others reports whether the claims that controllers allocate can be
// used on a node, or may be allocated there; it is nil if there are none.
func (m *Mode) Divide(pod *v1.Pod, claims []*resourceapi.ResourceClaim) (ours []*resourceapi.ResourceClaim, others func(*v1.Node) bool, err error) {
	ours, attempt, status := m.Split(pod, claims)
	if attempt != nil {
		others = func(node *v1.Node) bool { return attempt.Check(node) == nil }
	}
	return ours, others, status.AsError()
}

// FreeOne works like Free, for a pod whose group does not fit: it asks the driver of a claim without other consumers
// to deallocate the claim. It returns the name of the claim, "" if there is none.
func (m *Mode) FreeOne(pod *v1.Pod, claims []*resourceapi.ResourceClaim) (string, error) {
	_, attempt, status := m.Split(pod, claims)
	if attempt == nil {
		return "", status.AsError()
	}
	for _, claim := range attempt.classic.Claims {
		if claim.MayBeFreed(pod.UID) && !m.isForAnother(claim, pod) {
			m.negotiator.Free(pod, claim)
			return klog.KObj(claim.Object).String(), nil
		}
	}
	return "", nil
}

// unschedulable returns the status of a pod that cannot be scheduled until an event changes that.
func unschedulable(reason error) *fwk.Status {
	return kube.Of(fwk.UnschedulableAndUnresolvable, reason)
}

// Check says why the claims cannot be used on a node, nil if they can.
func (a *Attempt) Check(node *v1.Node) error {
	if a == nil {
		return nil
	}
	return a.classic.Check(node)
}

// SetFeasible sets the nodes to ask controllers about: the nodes that pass all other filters.
func (a *Attempt) SetFeasible(nodes []fwk.NodeInfo) {
	if a == nil {
		return
	}
	names := make([]string, 0, len(nodes))
	for _, node := range nodes {
		names = append(names, node.Node().Name)
	}
	a.classic.SetFeasible(names)
}

// Negotiate tells the controllers about the chosen node, while claims without allocation remain. Then the pod must
// wait, as the status says. structured is set if the pod has other claims without allocation.
func (a *Attempt) Negotiate(node string, structured bool) *fwk.Status {
	if a == nil {
		return nil
	}
	a.classic.Structured = structured
	spec, proceed := a.classic.Select(node)
	if proceed {
		a.mode.negotiator.Withdraw(a.pod) // An earlier attempt may have asked to free a claim.
		return nil
	}
	a.mode.negotiator.Ask(a.pod, spec)
	return kube.New(fwk.Pending, a.classic.Waiting(spec))
}

// Reserve makes sure that the claims that controllers have allocated are reserved for the pod.
func (a *Attempt) Reserve(ctx context.Context) error {
	if a == nil {
		return nil
	}
	a.touched = true
	for _, claim := range a.classic.Claims {
		if err := a.mode.writer.Reserve(ctx, claim, a.pod); err != nil {
			return err
		}
	}
	return nil
}

// Unreserve undoes Reserve, unless the pod is bound. It tries only once: the next attempt needs the reservation
// anyway, and the reservation ends with the pod.
func (a *Attempt) Unreserve(ctx context.Context) {
	if a == nil || !a.touched {
		return
	}
	a.touched = false
	for i := len(a.classic.Claims) - 1; i >= 0; i-- {
		claim := a.classic.Claims[i]
		unbound, err := a.mode.scheduler.Asker.Ask(ctx, claim.Object, write.OfPod(a.pod))
		switch {
		case errors.Is(err, write.ErrBound):
			return
		case err != nil:
			klog.FromContext(ctx).Error(err, "Not rolling back the reservation of claims, because it is not known whether the pod was bound", "pod", klog.KObj(a.pod))
			return
		}
		if err := a.mode.writer.Unreserve(ctx, claim, unbound); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot roll back the reservation of a claim; it ends with the pod", "pod", klog.KObj(a.pod))
		}
	}
}

// End ends the negotiation after the pod is bound.
func (a *Attempt) End() {
	if a != nil {
		a.mode.negotiator.End(a.pod)
	}
}

// Free asks the driver of a claim that keeps the pod from all nodes to deallocate it, and says so in the status; the
// status is nil if there is no such claim. It spares claims that were just allocated for another pod: otherwise two
// pods that cannot run on the same node would take the claim from each other forever.
func (a *Attempt) Free() *fwk.Status {
	if a == nil {
		return nil
	}
	claim := a.classic.Freeable(func(claim *negotiation.Claim) bool { return a.mode.isForAnother(claim, a.pod) })
	if claim == nil {
		return nil
	}
	a.mode.negotiator.Free(a.pod, claim)
	return kube.Newf(fwk.Success, "the driver of claim %s is asked to deallocate it", klog.KObj(claim.Object))
}

// isForAnother reports whether a claim is allocated for the selected node of another pod. Among pods with the same
// node, the claim belongs to the oldest one: if each pod left it to the others, it would never be freed.
func (m *Mode) isForAnother(claim *negotiation.Claim, pod *v1.Pod) bool {
	users, err := m.scheduler.Claims.Users(claim.Object.Namespace, claim.Object.Name)
	if err != nil {
		return false // The index is missing; IndexPods creates it.
	}
	ours := m.isFor(claim, pod)
	for _, user := range users {
		if user.UID == pod.UID || user.Spec.NodeName != "" || user.DeletionTimestamp != nil {
			continue
		}
		if m.isFor(claim, user) && !(ours && isOlderPod(pod, user)) {
			return true
		}
	}
	return false
}

// isFor reports whether a claim is allocated for the selected node of a pod.
func (m *Mode) isFor(claim *negotiation.Claim, pod *v1.Pod) bool {
	context := m.negotiator.Context(pod)
	if context == nil || context.Spec.SelectedNode == "" {
		return false
	}
	node, err := m.scheduler.Nodes.Get(context.Spec.SelectedNode)
	return err == nil && claim.AllocatedFor(node)
}

// isOlderPod defines a total order of pods.
func isOlderPod(a, b *v1.Pod) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.UID < b.UID
}
