package legacy

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/internal/apiversions"
	"github.com/quartermaster-dra/quartermaster/internal/legacy/classic"
)

// contextChanged wakes the pods that a change of a context may help: its own, and if that
// has ended before it was bound, those that left its claims to it.
func (m *Mode) contextChanged(before, after *apiversions.PodSchedulingContext) {
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
		return // Its first attempt is about to begin, and will find the context as it is.
	}
	pending, known := m.pendingReferences(pod)
	if !known {
		return // The claim that is missing wakes the pod.
	}
	switch helps, atOnce := classic.Progress(before, after, pending); {
	case helps && atOnce:
		m.scheduler.Waker.WakeAtOnce(entry)
	case helps:
		m.scheduler.Waker.Wake(entry)
	}
}

// contextEnded wakes pods of the namespace unless the pod of the context was bound, which is
// how most contexts end.
func (m *Mode) contextEnded(context *apiversions.PodSchedulingContext) {
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

// pendingReferences are the names under which the pod has claims that controllers have not
// allocated yet. It is not known if not all claims are there.
func (m *Mode) pendingReferences(pod *v1.Pod) (pending []string, known bool) {
	claims, err := m.scheduler.Claims.Of(pod)
	if err != nil {
		return nil, false
	}
	for _, claim := range claims {
		isClassic, err := classic.IsClassic(claim, m.scheduler.Classes)
		if err != nil {
			return nil, false
		}
		if isClassic && claim.Status.Allocation == nil {
			pending = append(pending, referenceTo(pod, claim.Name))
		}
	}
	return pending, true
}
