package simulation

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
)

// script makes steps of a history that is written down.
type script struct{ steps []step }

func (s *script) add(after time.Duration, text string, do func(*World)) *script {
	s.steps = append(s.steps, step{after, text, do})
	return s
}

// node has one that publishes so many devices.
func (s *script) node(devices int) *script {
	return s.add(0, fmt.Sprintf("node-0 with %d devices", devices), func(w *World) {
		w.createNode("node-0")
		w.createClass("gpu")
		var published []*builder.DeviceBuilder
		for i := range devices {
			published = append(published, builder.Device(fmt.Sprintf("dev-%d", i)).Attr("size", "big"))
		}
		slice := builder.Slice("node-0").OfDriver(driver).InPool("node-0", 1, 1).OnNode("node-0").Devices(published...).Obj()
		ignore(w.client.ResourceV1().ResourceSlices().Create(w.ctx, slice, metav1.CreateOptions{}))
	})
}

// pod creates one with a claim of the same name for so many devices.
func (s *script) pod(after time.Duration, name string, devices int64, cpu string, priority int32) *script {
	return s.add(after, fmt.Sprintf("pod %s with %d devices and %s CPU and priority %d", name, devices, cpu, priority), func(w *World) {
		claim := builder.Claim(name, builder.Request("r", "gpu").Count(devices)).In(namespace).Obj()
		ignore(w.client.ResourceV1().ResourceClaims(namespace).Create(w.ctx, claim, metav1.CreateOptions{}))
		pod := builder.Pod(name, builder.Container("c", "cpu", cpu), builder.Using(builder.Uses(name)...), func(p *v1.Pod) {
			p.Namespace, p.Spec.SchedulerName, p.Spec.Priority, p.Status.Phase = namespace, builder.SchedulerName, &priority, v1.PodPending
		})
		ignore(w.client.CoreV1().Pods(namespace).Create(w.ctx, pod, metav1.CreateOptions{}))
	})
}

// TestRegressions lives through histories in which something was wrong once.
func TestRegressions(t *testing.T) {
	for name, history := range map[string]*script{
		// Seed 225 of an early generator: room was kept for a preemptor that could not be tried any more.
		"the claim of a preemptor is deleted while its victim ends": new(script).node(2).pod(10*time.Second, "victim", 1, "12", 0).
			pod(10*time.Second, "preemptor", 2, "12", 100).
			add(time.Second, "delete the claim of the preemptor", func(w *World) { w.deleteClaim("preemptor") }).
			pod(time.Minute, "other", 1, "12", 0),
		// What faults/nomination-kept.patch puts back: PreFilter turns the preemptor away, because the class is gone.
		"the class of a preemptor is deleted while its victim ends": new(script).node(2).pod(10*time.Second, "victim", 1, "12", 0).
			pod(10*time.Second, "preemptor", 2, "12", 100).
			add(time.Second, "delete the class, and make another one", func(w *World) {
				w.deleteClass("gpu")
				w.createClass("big")
			}).
			add(time.Minute, "pod other with 1 device of class big", func(w *World) {
				claim := builder.Claim("other", builder.Request("r", "big")).In(namespace).Obj()
				ignore(w.client.ResourceV1().ResourceClaims(namespace).Create(w.ctx, claim, metav1.CreateOptions{}))
				pod := builder.Pod("other", builder.Container("c", "cpu", "1"), builder.Using(builder.Uses("other")...), func(p *v1.Pod) {
					p.Namespace, p.Spec.SchedulerName, p.Spec.Priority, p.Status.Phase = namespace, builder.SchedulerName, new(int32), v1.PodPending
				})
				ignore(w.client.CoreV1().Pods(namespace).Create(w.ctx, pod, metav1.CreateOptions{}))
			}),
	} {
		t.Run(name, func(t *testing.T) {
			h := &History{seed: 1, replicas: 1, steps: history.steps}
			w := Live(t, h, nil)
			if *trace {
				t.Logf("\n%s", w.Transcript())
			}
			require.Empty(t, w.failures, "%s", w.Transcript())
		})
	}
}
