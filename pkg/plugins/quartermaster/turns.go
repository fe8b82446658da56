package quartermaster

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// schedulingQueue implements queue.Queue with kube-scheduler's queue.
type schedulingQueue struct {
	fwk.PodActivator
	lease.Leadership
	// active returns the metric of the active queue. Turns looks often, and it takes longer to find a metric by its label
	// than to read it.
	active func() metrics.GaugeMetric
}

func newSchedulingQueue(queue fwk.PodActivator, leadership lease.Leadership) schedulingQueue {
	return schedulingQueue{queue, leadership, sync.OnceValue(kube.ActivePods)}
}

// Active implements queue.Queue. kube-scheduler exposes the number only as a metric.
func (q schedulingQueue) Active() int {
	read, err := written(q.active().Write)
	if err != nil {
		return 0
	}
	return int(read.GetGauge().GetValue())
}

// written returns the output of a write function.
func written[T any](write func(*T) error) (*T, error) {
	out := new(T)
	return out, write(out)
}

// takesTurns reports whether a pod may be held for the sake of other namespaces. Pods of a gang are not held: the gang
// needs all of them, and plans in its own turn. Neither are pods for which others were evicted, and pods that are not
// queued to be tried on a node.
func (pl *Quartermaster) takesTurns(pod *v1.Pod) bool {
	return !isOfGroup(pod) && len(pod.Spec.SchedulingGates) == 0 && pod.Status.NominatedNodeName == "" &&
		!pl.isResize(pod) && pl.state.nominations.Of(pod.UID) == nil
}

// isOfGroup reports whether the pod belongs to a PodGroup, of Kubernetes or of scheduler-plugins.
func isOfGroup(pod *v1.Pod) bool { return crd.NameOf(pod) != "" || dra.PodGroupName(pod) != "" }

// awaitTurn keeps a pod out of the queue until its namespace has a turn.
func (pl *Quartermaster) awaitTurn(pod *v1.Pod) *fwk.Status {
	if !pl.takesTurns(pod) {
		return nil
	}
	err := pl.state.turns.Hold(pod)
	if err == nil {
		return nil
	}
	pl.reporter.AddHeld(pod)
	return unschedulableFor(err)
}

// Lacks implements queue.KeptOut: it returns why a pod is kept out of the queue, nil if it is not.
func (s *shared) Lacks(pod *v1.Pod) error {
	if err := s.claims.Check(pod); err != nil {
		return err
	}
	return s.turns.Held(pod.UID)
}
