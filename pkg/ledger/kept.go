package ledger

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A claim in use can be deleted by a client that may remove its finalizer, or by faulty software.
// The node still uses its devices, so the ledger keeps them until the pods that run with them have
// ended. It keeps nothing of claims without such pods. A pod runs with one claim of a given name,
// because the kubelet accepts no other after it has prepared that one. So the kept claims are
// bounded by the claims that existing pods name.

// Runner is a pod that is on a node and has not ended.
type Runner struct {
	Pod types.UID
	// Prepared is set if the kubelet is known to have prepared the pod's claims.
	Prepared bool
}

// Running returns those consumers of a claim that are pods on a node and have not ended. It is
// called under a lock and must not call back.
type Running func(claim ClaimRef, consumers []resourceapi.ResourceClaimConsumerReference) []Runner

// keep makes a deleted claim go on to hold its devices while pods run with it. It returns the
// devices of other kept claims that end because of that. The caller must hold the mutex.
func (l *Ledger) keep(r *record) (freed Freed) {
	if l.Running == nil || r.committed == nil {
		return nil
	}
	// Count before Running is called: a pod that ends afterwards then finds that claims are kept.
	l.keeping.Add(1)
	for _, runner := range l.Running(r.ref, r.reservedFor) {
		if r.runner(runner.Pod) != nil {
			continue // The pod has the claim both by itself and through its PodGroup.
		}
		if former := l.keptOfName(runner.Pod, r.ref); former != nil {
			if former.runner(runner.Pod).Prepared {
				continue // The pod runs with the former claim.
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

// runner returns the entry of a pod, nil if the claim is not kept for it.
func (r *record) runner(pod types.UID) *Runner {
	if at := slices.IndexFunc(r.runners, func(runner Runner) bool { return runner.Pod == pod }); at >= 0 {
		return &r.runners[at]
	}
	return nil
}

// keptOfName returns the claim of the same name that is kept for a pod, or nil. The caller must
// hold the mutex.
func (l *Ledger) keptOfName(pod types.UID, ref ClaimRef) *record {
	for _, claim := range l.keptFor[pod] {
		if r := l.claims[claim]; r != nil && r.ref.Namespace == ref.Namespace && r.ref.Name == ref.Name {
			return r
		}
	}
	return nil
}

// letGo undoes keep for all pods. The caller must hold the mutex.
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

// PodEnded handles pods that have ended or are gone. It must be called once Running no longer
// returns them.
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

// endFor undoes keep for one pod. The caller must hold the mutex.
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
