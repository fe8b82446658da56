package ledger

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A claim in use can be deleted by whoever may remove its finalizer, or by something that is broken. Its
// devices then go on to be used on the node: the ledger keeps them until the pods have ended that ran with
// them. It remembers nothing of claims that no pod runs with, and of the others only as long as these pods
// exist, so that what it keeps is bounded by the pods that there are.

// Running returns, of the consumers of a claim, the pods that are on a node and have not ended. It is called
// under a lock, and must not call back.
type Running func(claim ClaimRef, consumers []resourceapi.ResourceClaimConsumerReference) []types.UID

// keep has a claim that is deleted go on to hold what it has while pods run with it. It needs the mutex.
func (l *Ledger) keep(r *record) {
	if l.Running == nil || r.committed == nil {
		return
	}
	// Before the pods are looked at: who ends after that finds that there is something to do.
	l.keeping.Add(1)
	if r.runners = once(l.Running(r.ref, r.reservedFor)); len(r.runners) == 0 {
		l.keeping.Add(-1)
		return
	}
	r.kept = r.committed
	for _, pod := range r.runners {
		l.keptFor[pod] = append(l.keptFor[pod], r.ref.UID)
	}
}

// once returns each pod once: a pod can have a claim by itself and through its PodGroup.
func once(pods []types.UID) []types.UID {
	slices.Sort(pods)
	return slices.Compact(pods)
}

// letGo ends what keep began. It needs the mutex.
func (l *Ledger) letGo(r *record) {
	if r.kept == nil {
		return
	}
	for _, pod := range r.runners {
		l.notKeptFor(pod, r.ref.UID)
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
		r := l.claims[claim]
		l.notKeptFor(pod, claim)
		if r == nil {
			continue // Nothing says so, but a handler of events must not end the scheduler.
		}
		if r.runners = slices.DeleteFunc(r.runners, func(runner types.UID) bool { return runner == pod }); len(r.runners) > 0 {
			continue
		}
		before := r.effective()
		l.letGo(r)
		l.reserve(r, nil, before)
		if r.inFlight == nil {
			delete(l.claims, claim)
		}
		freed = freed.And(l.publish(r.ref, before, r.effective()))
	}
	return freed
}
