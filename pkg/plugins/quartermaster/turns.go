package quartermaster

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/podgroup"
)

// awaitTurn keeps a pod out of the queue while others of its namespace are tried that take long. Pods for which others
// were evicted do not wait for that, nor do PodGroups of Kubernetes, which are queued as a whole. A pod with scheduling
// gates is not queued anyway.
func (pl *Quartermaster) awaitTurn(pod *v1.Pod) *fwk.Status {
	if len(pod.Spec.SchedulingGates) > 0 || podgroup.NameOf(pod) != "" || pl.isResize(pod) || pl.state.nominations.Of(pod.UID) != nil {
		return nil
	}
	err := pl.state.turns.Queue(pod)
	if err == nil {
		return nil
	}
	if entry := pl.waiting.Get(pod.UID); entry != nil {
		entry.KeepOut()
	}
	if pl.state.turns.Waits(pod) != nil {
		pl.gate.Add(pod)
	}
	return unschedulableFor(err)
}

// lacks returns why a pod is kept out of the queue, nil if it is not, or was told another reason before.
func (pl *Quartermaster) lacks(pod *v1.Pod) error {
	if err := pl.claims.Check(pod); err != nil {
		return err
	}
	return pl.state.turns.Waits(pod)
}
