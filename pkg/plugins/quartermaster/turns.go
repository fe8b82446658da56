package quartermaster

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/internal/queue"
)

// newTurns returns the Turns that let namespaces take turns in the scheduler's queue.
func (s *shared) newTurns(handle fwk.Handle) *queue.Turns {
	active := sync.OnceValue(kube.ActivePods) // Turns looks often, and it takes longer to find a metric by its label than to read it.
	return queue.NewTurns(queue.Queue{
		Active:   func() int { return activePods(active()) },
		Leads:    func() bool { return s.Leads() == nil },
		Activate: func(pods map[string]*v1.Pod) { handle.Activate(klog.Background(), pods) },
	})
}

// activePods returns the number of pods in the active queue. The queue exposes it only as a metric.
func activePods(metric metrics.GaugeMetric) int {
	read, err := written(metric.Write)
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
	return crd.NameOf(pod) == "" && dra.PodGroupName(pod) == "" && len(pod.Spec.SchedulingGates) == 0 && pod.Status.NominatedNodeName == "" &&
		!pl.isResize(pod) && pl.state.nominations.Of(pod.UID) == nil
}

// awaitTurn keeps a pod out of the queue until its namespace has a turn.
func (pl *Quartermaster) awaitTurn(pod *v1.Pod) *fwk.Status {
	if !pl.takesTurns(pod) {
		return nil
	}
	err := pl.state.turns.Hold(pod)
	if err == nil {
		return nil
	}
	pl.gate.AddHeld(pod)
	return unschedulableFor(err)
}

// lacks returns why a pod is kept out of the queue, nil if it is not.
func (pl *Quartermaster) lacks(pod *v1.Pod) error {
	if err := pl.claims.Check(pod); err != nil {
		return err
	}
	return pl.state.turns.Held(pod.UID)
}
