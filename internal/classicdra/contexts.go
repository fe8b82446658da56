package classicdra

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/internal/classicdra/negotiation"
)

// contextChanged wakes the pods that a change of a context may help: its own pod or, if the context was deleted
// before that was bound, the pods that left claims to it.
func (m *Mode) contextChanged(before, after *api.PodSchedulingContext) {
	if after == nil {
		m.contextEnded(before)
		return
	}
	owner := metav1.GetControllerOfNoCopy(after)
	if owner == nil {
		return
	}
	entry := m.scheduler.Waiting.Get(owner.UID)
	if entry == nil {
		return
	}
	pod := entry.Latest()
	if pod == nil {
		return // Its first attempt is about to begin, and will read the current context.
	}
	pending, known := m.pendingReferences(pod)
	if !known {
		return // The missing claim will wake the pod.
	}
	switch helps, atOnce := negotiation.Progress(before, after, pending); {
	case helps && atOnce:
		m.scheduler.Waker.WakeAtOnce(entry)
	case helps:
		m.scheduler.Waker.Wake(entry)
	}
}

// contextEnded wakes pods of the namespace, unless the context's pod was bound, the usual reason for its end.
func (m *Mode) contextEnded(context *api.PodSchedulingContext) {
	pod := m.scheduler.Claims.Pod(context.Namespace, context.Name)
	if pod != nil && metav1.IsControlledBy(context, pod) && pod.Spec.NodeName != "" {
		return
	}
	for _, entry := range m.scheduler.Waiting.All() {
		if waiting := entry.Latest(); waiting != nil && waiting.Namespace == context.Namespace && len(waiting.Spec.ResourceClaims) > 0 {
			m.scheduler.Waker.Wake(entry)
		}
	}
}

// pendingReferences returns the pod's references to claims that controllers have not allocated yet. known is false if
// a claim is missing.
func (m *Mode) pendingReferences(pod *v1.Pod) (pending []string, known bool) {
	claims, err := m.scheduler.Claims.Of(pod)
	if err != nil {
		return nil, false
	}
	for _, claim := range claims {
		isClassic, err := negotiation.IsClassic(claim, m.scheduler.Classes)
		if err != nil {
			return nil, false
		}
		if isClassic && claim.Status.Allocation == nil {
			pending = append(pending, referenceTo(pod, claim.Name))
		}
	}
	return pending, true
}
