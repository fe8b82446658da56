package quartermaster

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreEnqueue keeps a pod out of the queue as long as its claims are not there. For
// most pods with templates that is the normal state for a moment, so no reason
// is reported at once; see package gate.
func (pl *Quartermaster) PreEnqueue(ctx context.Context, pod *v1.Pod) *fwk.Status {
	if entry := pl.waiting.Get(pod.UID); entry != nil {
		entry.Queue() // First, so that a claim which is made from now on is not missed.
	}
	err := pl.claims.Check(pod)
	pl.waiting.Lacks(pod, err != nil)
	if err != nil {
		pl.state.turns.Forget(pod.UID)
		pl.gate.Add(pod)
		// What is kept for a pod whose claim is gone is of no use to it. The queue is locked here.
		if freed := pl.state.nominations.Drop(pod.UID); freed != nil {
			go pl.state.Freed(freed)
		}
		return unschedulableFor(err)
	}
	status := pl.preemption.PreEnqueue(ctx, pod)
	if entry := pl.waiting.Get(pod.UID); entry != nil && !status.IsSuccess() {
		entry.KeepOut()                     // What wakes it while its victims are being evicted wakes it in vain.
		pl.waker.WakeIn(entry, time.Second) // Devices may be free by then, of which nothing more is told.
	}
	if !status.IsSuccess() {
		return status
	}
	return pl.awaitTurn(pod)
}
