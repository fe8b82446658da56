package ledger

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A claim in use can be deleted by whoever may remove its finalizer, or by something that is broken. Its
// devices then go on to be used on the node: the ledger keeps them until the pods have ended that ran with
// them. It remembers nothing of claims that no pod runs with, and of the others only as long as these pods
// exist. A pod runs with one claim of a name: the kubelet takes no other one while it has prepared that. So what
// is kept is bounded by the claims that the pods name which there are.

// Runner is a pod that is on a node and has not ended.
type Runner struct {
	Pod types.UID
	// Prepared is set if the kubelet is known to have prepared the pod's claims.
	Prepared bool
}

// Running returns, of the consumers of a claim, the pods that are on a node and have not ended. It is called
// under a lock, and must not call back.
type Running func(claim ClaimRef, consumers []resourceapi.ResourceClaimConsumerReference) []Runner

// keep has a claim that is deleted go on to hold what it has while pods run with it. It returns what others
// hold no longer because of that. It needs the mutex.
func (l *Ledger) keep(r *record) (freed Freed) {
	if l.Running == nil || r.committed == nil {
		return nil
	}
	// Before the pods are looked at: who ends after that finds that there is something to do.
	l.keeping.Add(1)
	for _, runner := range l.Running(r.ref, r.reservedFor) {
		if r.runner(runner.Pod) != nil {
			continue // It has the claim by itself and through its PodGroup.
		}
		if former := l.keptOfName(runner.Pod, r.ref); former != nil {
			if former.runner(runner.Pod).Prepared {
				continue // It runs with that one.
			}
			freed = freed.And(l.endFor(runner.Pod, former))
		}
		r.runners = append(r.runners, runner)
		l.keptFor[runner.Pod] = append(l.keptFor[runner.Pod], r.ref.UID)
	}
	if len(r.runners) == 0 {
		l.keeping.Add(-1)
		return freed
	}
	r.kept = r.committed
	return freed
}

// runner returns what was known of a pod when the claim was deleted, nil if the claim is not kept for it.
func (r *record) runner(pod types.UID) *Runner {
	if at := slices.IndexFunc(r.runners, func(runner Runner) bool { return runner.Pod == pod }); at >= 0 {
		return &r.runners[at]
	}
	return nil
}

// keptOfName returns the claim of the same name that is kept for a pod, nil if none is. It needs the mutex.
func (l *Ledger) keptOfName(pod types.UID, ref ClaimRef) *record {
	for _, claim := range l.keptFor[pod] {
		if r := l.claims[claim]; r != nil && r.ref.Namespace == ref.Namespace && r.ref.Name == ref.Name {
			return r
		}
	}
	return nil
}

// letGo ends what keep began. It needs the mutex.
func (l *Ledger) letGo(r *record) {
	if r.kept == nil {
		return
	}
	for _, runner := range r.runners {
		l.notKeptFor(runner.Pod, r.ref.UID)
	}
	l.keeping.Add(-1)
	r.kept, r.runners = nil, nil
}

func (l *Ledger) notKeptFor(pod, claim types.UID) {
	claims := slices.DeleteFunc(l.keptFor[pod], func(other types.UID) bool { return other == claim })
	if l.keptFor[pod] = claims; len(claims) == 0 {
		delete(l.keptFor, pod)
	}
}

// PodEnded is told of pods that have ended or are gone, after they can be found no more by Running.
func (l *Ledger) PodEnded(pod types.UID) (freed Freed) {
	if l.keeping.Load() == 0 {
		return nil
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, claim := range slices.Clone(l.keptFor[pod]) {
		if r := l.claims[claim]; r != nil {
			freed = freed.And(l.endFor(pod, r))
		}
	}
	return freed
}

// endFor ends what keep began for one of the pods. It needs the mutex.
func (l *Ledger) endFor(pod types.UID, r *record) Freed {
	l.notKeptFor(pod, r.ref.UID)
	if r.runners = slices.DeleteFunc(r.runners, func(runner Runner) bool { return runner.Pod == pod }); len(r.runners) > 0 {
		return nil
	}
	before := r.effective()
	l.letGo(r)
	l.reserve(r, nil, before)
	if r.inFlight == nil {
		delete(l.claims, r.ref.UID)
	}
	return l.publish(r.ref, before, r.effective())
}
