package simulation

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// podStart is the time until a kubelet notices a change, podTerm the time until a deleted pod ends.
	podStart = 250 * time.Millisecond
	podTerm  = 2 * time.Second
	// slowEnds is the theme of histories in which a third of the pods end slowEnd after they are deleted. endsAnnotation says it of a pod.
	slowEnds, slowEnd, endsAnnotation = "slow ends", 45 * time.Second, "example.com/ends-after"
)

// endsSlowly has a pod end so long after it is deleted.
func endsSlowly(d time.Duration) func(*v1.Pod) {
	return func(pod *v1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, endsAnnotation, d.String()) }
}

// termOf returns how long after its deletion a pod ends.
func termOf(pod *object) time.Duration {
	if d, err := time.ParseDuration(lookup(pod.metadata(), []string{"annotations", endsAnnotation})); err == nil {
		return d
	}
	return podTerm
}

// kubelet runs and ends the pods of all nodes. Like the pod garbage collector, it also removes pods whose node is gone.
func (w *World) kubelet() {
	var next <-chan time.Time
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-w.pods:
			if pause(w.ctx, podStart) != nil {
				return
			}
		case <-next:
		}
		next = nil
		if due := w.runPods(); due > 0 {
			next = time.After(due)
		}
	}
}

// wakeKubelet makes the kubelets look at their pods.
func (w *World) wakeKubelet() {
	select {
	case w.pods <- struct{}{}:
	default:
	}
}

// runPods starts pods that are bound, and ends pods that are deleted. It returns the time until the next pod ends, 0 if none does.
func (w *World) runPods() (due time.Duration) {
	s := w.server.store
	s.mutex.Lock()
	defer s.mutex.Unlock()
	pods, nodes := s.collections["/v1/pods"], s.collections["/v1/nodes"]
	for _, pod := range pods.sorted() {
		key := types.NamespacedName{Namespace: pod.text("namespace"), Name: pod.text("name")}
		node := lookup(pod.fields, []string{"spec", "nodeName"})
		var deleted time.Time
		if at := pod.text("deletionTimestamp"); at != "" {
			deleted, _ = time.Parse(time.RFC3339, at)
		}
		phase := lookup(pod.fields, []string{"status", "phase"})
		switch {
		case node == "":
		case nodes.objects[types.NamespacedName{Name: node}] == nil:
			s.remove(pods, key, pod)
		case !deleted.IsZero() && time.Since(deleted) >= termOf(pod):
			s.remove(pods, key, pod)
		case !deleted.IsZero():
			if left := termOf(pod) - time.Since(deleted); due == 0 || left < due {
				due = left
			}
		case phase == "" || phase == "Pending":
			next := copied(pod)
			status, ok := next["status"].(map[string]any)
			if !ok {
				status = map[string]any{}
				next["status"] = status
			}
			status["phase"] = "Running"
			s.put(pods, key, pod, next)
		}
	}
	return due
}
