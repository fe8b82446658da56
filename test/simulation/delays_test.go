package simulation

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// full has two pods of low priority run with the devices of a node, where pods are evicted after preemptionDelay only.
func (s *script) full() *script {
	s.themes = map[string]bool{delays: true}
	// A gang may not be tried again before the pause that follows the process's start is over.
	return s.node(2).pod(70*time.Second, "low-0", 1, "1", 0).pod(0, "low-1", 1, "1", 0).runs(10*time.Second, "low-0")
}

// stay has the history fail if the pods of low priority do not run.
func (s *script) stay(after time.Duration) *script {
	return s.add(after, "pods low-0 and low-1 run", func(w *World) {
		for i := range 2 {
			pod, err := w.client.CoreV1().Pods(namespace).Get(w.ctx, fmt.Sprintf("low-%d", i), metav1.GetOptions{})
			if err != nil || pod.DeletionTimestamp != nil || pod.Spec.NodeName == "" {
				w.fail("pod low-%d was evicted too early (%v)", i, err)
			}
		}
	})
}

// more has another node with two devices come.
func (s *script) more(after time.Duration) *script {
	return s.add(after, "node-1 with 2 devices", func(w *World) {
		w.createNode("node-1")
		w.putSlice(builder.Slice("node-1").OfDriver(driver).InPool("node-1", 1, 1).OnNode("node-1").Devices(builder.Device("dev-0"), builder.Device("dev-1")).Obj())
	})
}

// TestPreemptionDelay: a pod, a gang and a PodGroup of Kubernetes have pods evicted after the delay, whose time goes on if the process
// ends, and have nobody evicted if a node comes before that.
func TestPreemptionDelay(t *testing.T) {
	for name, come := range map[string]struct {
		pods func(*script) *script
		runs []string
	}{
		"pod":                    {func(s *script) *script { return s.pod(0, "high", 2, "1", 100) }, []string{"high"}},
		"gang":                   {func(s *script) *script { return s.gang(0, "gang", 2, 100) }, []string{"gang-0", "gang-1"}},
		"PodGroup of Kubernetes": {func(s *script) *script { return s.podGroup(0, "gang", 2, 100) }, []string{"gang-0", "gang-1"}},
	} {
		for variant, story := range map[string]*script{
			"":                   come.pods(new(script).full()).stay(19*time.Second).add(10*time.Second, "nothing", func(*World) {}),
			"the process ends":   come.pods(new(script).full()).crash(10*time.Second).stay(9*time.Second).add(30*time.Second, "nothing", func(*World) {}),
			"a node comes first": come.pods(new(script).full()).more(10 * time.Second).stay(30 * time.Second),
		} {
			story.themes[delays] = true
			for _, pod := range come.runs {
				story.runs(0, pod)
			}
			t.Run(name+"/"+variant, story.passes)
		}
	}
}
