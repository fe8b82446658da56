package quartermaster

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
)

// PreEnqueue keeps a pod out of the queue while any of its claims is missing. For most pods with templates that is
// normal for a moment, so it does not report a reason at once; see queue.UnqueuedReporter.
func (pl *Quartermaster) PreEnqueue(ctx context.Context, pod *v1.Pod) *fwk.Status {
	if entry := pl.waiting.Get(pod.UID); entry != nil {
		entry.Queue() // First, so that a claim created from now on is not missed.
	}
	err := pl.claims.Check(pod)
	pl.waiting.Lacks(pod, err != nil)
	if err != nil {
		pl.state.turns.Forget(pod.UID)
		pl.reporter.Add(pod)
		// A pod whose claim is gone cannot use the kept devices. The queue is locked here.
		if freed := pl.state.nominations.Drop(pod.UID); freed != nil {
			go pl.state.Freed(freed)
		}
		return unschedulableFor(err)
	}
	status := pl.preemption.PreEnqueue(ctx, pod)
	if entry := pl.waiting.Get(pod.UID); entry != nil && !status.IsSuccess() {
		entry.KeepOut()                     // Events during the eviction of its victims would wake it in vain.
		pl.waker.WakeIn(entry, time.Second) // Devices may be free by then, and no further event reports that.
	}
	if !status.IsSuccess() {
		return status
	}
	if status = pl.awaitPause(pod); !status.IsSuccess() {
		return status
	}
	return pl.awaitTurn(pod)
}

// errFailing is the reason why a pod waits that was tried too often in a row.
var errFailing = errors.New("the last attempts failed after a node was found; waiting a moment before the next one")

// awaitPause keeps a pod of a PodGroup out of the queue that fails again and again although it has a node. Kube-scheduler itself
// has such pods wait in the back-off, but not those of PodGroups: as the group fitted, it tries them at once, without end.
func (pl *Quartermaster) awaitPause(pod *v1.Pod) *fwk.Status {
	entry := pl.waiting.Get(pod.UID)
	if entry == nil || !pl.features.EnableGenericWorkload || dra.PodGroupName(pod) == "" {
		return nil
	}
	rest := pl.waker.Paused(entry)
	if rest == 0 {
		return nil
	}
	entry.KeepOut()
	// The pods of a group end their pauses together: each activation asks all of them.
	pl.waker.WakeIn(entry, time.Until(time.Now().Add(rest).Truncate(time.Second).Add(time.Second)))
	return unschedulableFor(errFailing)
}
