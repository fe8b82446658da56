package simulation

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// podStart is how long a kubelet takes to notice something, podTerm how long a pod takes to end.
	podStart = 250 * time.Millisecond
	podTerm  = 2 * time.Second
)

// kubelet has pods of all nodes run and end, and does what the garbage collection of pods does for nodes that are gone.
func (w *World) kubelet() {
	var next <-chan time.Time
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-w.pods:
		case <-next:
		}
		next = nil
		if pause(w.ctx, podStart) != nil {
			return
		}
		if w.runPods() {
			next = time.After(podTerm)
		}
	}
}

// wakeKubelet has the kubelets look at their pods.
func (w *World) wakeKubelet() {
	select {
	case w.pods <- struct{}{}:
	default:
	}
}

// runPods has those run that are bound, and those end that are deleted. It reports whether some are ending.
func (w *World) runPods() (ending bool) {
	s := w.server.store
	s.mutex.Lock()
	defer s.mutex.Unlock()
	pods, nodes := s.collections["/v1/pods"], s.collections["/v1/nodes"]
	for _, pod := range pods.sorted() {
		key := types.NamespacedName{Namespace: pod.text("namespace"), Name: pod.text("name")}
		node := lookup(pod.fields, []string{"spec", "nodeName"})
		deleted, _ := time.Parse(time.RFC3339, pod.text("deletionTimestamp"))
		phase := lookup(pod.fields, []string{"status", "phase"})
		switch {
		case node == "":
		case nodes.objects[types.NamespacedName{Name: node}] == nil:
			s.remove(pods, key, pod)
		case !deleted.IsZero() && time.Since(deleted) >= podTerm:
			s.remove(pods, key, pod)
		case !deleted.IsZero():
			ending = true
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
	return ending
}
