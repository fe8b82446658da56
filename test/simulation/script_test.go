package simulation

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// script makes steps of a history that is written down.
type script struct {
	steps  []step
	themes map[string]bool
}

// about has the history be configured as those with a theme are.
func (s *script) about(theme string) *script {
	s.themes = map[string]bool{theme: true}
	return s
}

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

// cpus has another driver publish so many devices of class cpus, each of which stands for three CPUs of the node.
func (s *script) cpus(devices int) *script {
	return s.add(0, fmt.Sprintf("node-0 with %d devices that stand for CPUs", devices), func(w *World) {
		w.putSlice(sliceOfCPUs("node-0", 1, devices).Obj())
		w.createClass("cpus")
	})
}

// pod creates one with a claim of the same name for so many devices.
func (s *script) pod(after time.Duration, name string, devices int64, cpu string, priority int32) *script {
	return s.add(after, fmt.Sprintf("pod %s with %d devices and %s CPU and priority %d", name, devices, cpu, priority), func(w *World) {
		w.createPodWithClaim(name, builder.Request("r", "gpu").Count(devices), cpu, priority)
	})
}

// createPodWithClaim creates a pod, and a claim of the same name for it.
func (w *World) createPodWithClaim(name string, request *builder.RequestBuilder, cpu string, priority int32, edits ...func(*v1.Pod)) {
	claim := builder.Claim(name, request).In(namespace).Obj()
	ignore(w.client.ResourceV1().ResourceClaims(namespace).Create(w.ctx, claim, metav1.CreateOptions{}))
	w.createPod(name, priority, append(edits, builder.Container("c", "cpu", cpu), builder.Using(builder.Uses(name)...))...)
}

// createPod creates a pod for our scheduler.
func (w *World) createPod(name string, priority int32, edits ...func(*v1.Pod)) {
	pod := builder.Pod(name, append(edits, func(p *v1.Pod) {
		p.Namespace, p.Spec.SchedulerName, p.Spec.Priority, p.Status.Phase = namespace, builder.SchedulerName, &priority, v1.PodPending
	})...)
	ignore(w.client.CoreV1().Pods(namespace).Create(w.ctx, pod, metav1.CreateOptions{}))
}

// withVolume has a pod use a volume claim that is called so.
func withVolume(pod *v1.Pod) {
	claim := &v1.PersistentVolumeClaimVolumeSource{ClaimName: "volume"}
	pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: claim}}}
}

// joins creates a pod that uses a claim which others use.
func (s *script) joins(after time.Duration, name, claim string, priority int32) *script {
	return s.add(after, fmt.Sprintf("pod %s joins claim %s with priority %d", name, claim, priority), func(w *World) {
		w.createPod(name, priority, builder.Container("c"), builder.Using(builder.Uses(claim)...))
	})
}

// join creates so many pods that use a claim, one after the other.
func (s *script) join(pods int, every time.Duration, claim string) *script {
	for i := range pods {
		s.joins(every, fmt.Sprintf("%s-%d", claim, i), claim, 0)
	}
	return s
}

// foreign has a pod of the foreign scheduler run with a device, whoever has that already.
func (s *script) foreign(after time.Duration, name, device string) *script {
	return s.add(after, fmt.Sprintf("the foreign scheduler allocates %s to claim %s and binds a pod of that name", device, name), func(w *World) {
		w.must(w.runForeign(name, device))
	})
}

// runForeign implements foreign. It returns the server's answer.
func (w *World) runForeign(name, device string) error {
	w.createForeign(name)
	return w.bindForeign(name, device)
}

// asForeign returns the client of the foreign scheduler.
func (w *World) asForeign() kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(configOf(w.server.Connect(1, Calm), foreign))
}

// createForeign creates a pod of the foreign scheduler, and a claim of its name.
func (w *World) createForeign(name string) {
	pod := builder.Pod(name, builder.Container("c"), builder.Using(builder.Uses(name)...), func(p *v1.Pod) {
		p.Namespace, p.Spec.SchedulerName, p.Status.Phase = namespace, foreign, v1.PodPending
	})
	ignore(w.asForeign().CoreV1().Pods(namespace).Create(w.ctx, builder.Unsaved(namespace, pod), metav1.CreateOptions{}))
	claim := builder.Unsaved(namespace, builder.Claim(name, builder.Request("r", "gpu")).Obj())
	_, err := w.asForeign().ResourceV1().ResourceClaims(namespace).Create(w.ctx, claim, metav1.CreateOptions{})
	w.must(err)
}

// bindForeign has the foreign scheduler allocate a device to the claim, and bind the pod of that name. It returns the server's answer.
func (w *World) bindForeign(name, device string) error {
	client := w.asForeign()
	pod, err := client.CoreV1().Pods(namespace).Get(w.ctx, name, metav1.GetOptions{})
	w.must(err)
	claim, err := client.ResourceV1().ResourceClaims(namespace).Get(w.ctx, name, metav1.GetOptions{})
	w.must(err)
	allocated := builder.Claim(name, builder.Request("r", "gpu")).Allocated("node-0", device)
	claim.Finalizers = allocated.Finalizers
	claim, err = client.ResourceV1().ResourceClaims(namespace).Update(w.ctx, claim, metav1.UpdateOptions{})
	w.must(err)
	claim.Status = allocated.Status
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
	if _, err = client.ResourceV1().ResourceClaims(namespace).UpdateStatus(w.ctx, claim, metav1.UpdateOptions{}); err != nil {
		return err
	}
	binding := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID}, Target: v1.ObjectReference{Kind: "Node", Name: "node-0"}}
	return client.CoreV1().Pods(namespace).Bind(w.ctx, binding, metav1.CreateOptions{})
}

// deviceOf returns the device that a claim has, "" if it has none.
func (w *World) deviceOf(claim string) string {
	stored, err := w.client.ResourceV1().ResourceClaims(namespace).Get(w.ctx, claim, metav1.GetOptions{})
	w.must(err)
	if stored.Status.Allocation == nil {
		return ""
	}
	return stored.Status.Allocation.Devices.Results[0].Device
}

// gang creates a PodGroup of scheduler-plugins with as many pods as it needs, each with a claim for one device. The pods have the
// priorities in turn.
func (s *script) gang(after time.Duration, name string, pods int32, priorities ...int32) *script {
	return s.add(after, fmt.Sprintf("PodGroup %s of %d pods with priority %d", name, pods, priorities), func(w *World) {
		w.createTemplate("one")
		w.createLabeledGroup(name, pods)
		for i := range pods {
			p := &podPlan{name: fmt.Sprintf("%s-%d", name, i)}
			p.with(func(pod *v1.Pod) { pod.Labels = map[string]string{v1alpha1.PodGroupLabel: name} }, "of group %s", name)
			p.with(func(pod *v1.Pod) { pod.Spec.Priority = &priorities[i%int32(len(priorities))] }, "priority %d", priorities[i%int32(len(priorities))])
			p.with(builder.Using(builder.FromTemplate("one")...), "template one")
			p.create(w)
		}
	})
}

// podGroup creates a PodGroup of Kubernetes with as many pods as it needs, each with a claim for one device and 4 CPU.
func (s *script) podGroup(after time.Duration, name string, pods, priority int32) *script {
	template := "one"
	if s.themes[cpus] {
		template = "cpus"
	}
	s.themes = map[string]bool{podGroups: true, cpus: s.themes[cpus]}
	return s.add(after, fmt.Sprintf("PodGroup %s of Kubernetes of %d pods with 4 CPU and priority %d", name, pods, priority), func(w *World) {
		w.createTemplate(template)
		w.createPodGroup(name, pods, priority, "")
		for i := range pods {
			p := &podPlan{name: fmt.Sprintf("%s-%d", name, i)}
			p.with(builder.InGroup(name), "of group %s", name)
			p.with(func(pod *v1.Pod) {
				pod.Spec.Priority, pod.Spec.Containers[0].Resources.Requests = &priority, builder.Resources("cpu", "4")
			}, "4 CPU and priority %d", priority)
			p.with(builder.Using(builder.FromTemplate(template)...), "template %s", template)
			p.create(w)
		}
	})
}

// extended creates a pod that asks for one of the resource that class gpu stands for from now on. At its first binding, something happens.
func (s *script) extended(after time.Duration, name, text string, happens func(w *World, c *Connection, send func())) *script {
	return s.add(after, fmt.Sprintf("pod %s with 1 of %s; when it is bound, %s", name, resourceNames[0], text), func(w *World) {
		w.nameClass("gpu", resourceNames[0])
		for _, r := range w.replicas {
			r.connection.Await(&moment{kind: binding, left: 1, happens: func(_ subject, send func()) bool {
				w.note("%s: %s", name, text)
				happens(w, r.connection, send)
				return false
			}})
		}
		p := &podPlan{name: name}
		p.with(builder.Extended(v1.ResourceName(resourceNames[0]), "1"), "1 of %s", resourceNames[0])
		p.create(w)
	})
}

// crash has the process of the scheduler end.
func (s *script) crash(after time.Duration) *script {
	return s.add(after, "the scheduler ends", func(w *World) {
		r := w.replicas[0]
		w.ending(r, unsent, 0)(subject{}, nil)
	})
}

// outlives has the process of the scheduler stopped for so long that its lease is over, with a request to renew it under way. Then it
// goes on to schedule, for ten seconds at most, until it learns that.
func (s *script) outlives(after, d time.Duration) *script {
	return s.add(after, "the scheduler is cut off", func(w *World) { w.replicas[0].connection.Pause() }).
		add(4*time.Second, fmt.Sprintf("the scheduler is stopped for %s", d), func(w *World) {
			c := w.replicas[0].connection
			w.freeze(c, d, false)
			w.group.Go(func() {
				_ = pause(w.ctx, d-time.Second)
				c.Resume()
			})
		})
}

// idle has the history fail if a pod was tried more than once by then, or if a pod is being evicted.
func (s *script) idle(after time.Duration, name string) *script {
	return s.add(after, "no pod was tried twice by now, and pod "+name+" was not evicted", func(w *World) {
		_, of := w.attempts.now()
		for pod, n := range of {
			if n > 1 {
				w.fail("pod %s was tried %d times", pod, n)
			}
		}
		pod, err := w.client.CoreV1().Pods(namespace).Get(w.ctx, name, metav1.GetOptions{})
		if err != nil || pod.DeletionTimestamp != nil {
			w.fail("pod %s was evicted, or is about to be (%v)", name, err)
		}
	})
}

// weather has the schedulers' connections be so from then on.
func (s *script) weather(after time.Duration, weather Weather) *script {
	return s.add(after, fmt.Sprintf("weather %+v", weather), func(w *World) {
		for _, r := range w.replicas {
			r.connection.Set(weather)
		}
	})
}

// runs has the history fail if a pod is not on a node by then.
func (s *script) runs(after time.Duration, name string) *script {
	return s.add(after, "pod "+name+" is to run by now", func(w *World) {
		pod, err := w.client.CoreV1().Pods(namespace).Get(w.ctx, name, metav1.GetOptions{})
		w.must(err)
		if pod.Spec.NodeName == "" {
			w.fail("pod %s does not run", name)
		}
	})
}

// ends has the process that schedules end at its next write of a kind. Just before that, something happens.
func (s *script) ends(after time.Duration, at writeKind, way string, happens func(*World)) *script {
	return s.add(after, "at the next "+at.name+" something happens, and the process ends "+way, func(w *World) {
		r := w.leader(builder.SchedulerName)
		end := w.ending(r, way, 0)
		r.connection.Await(&moment{at, 1, func(about subject, send func()) bool {
			happens(w)
			return end(about, send)
		}})
	})
}

// nominatesUnseen has the scheduler see no changes of pods for ten seconds from its next nomination on.
func (s *script) nominatesUnseen(after time.Duration) *script {
	return s.add(after, "no changes of pods are seen for 10s from the next nomination on", func(w *World) {
		c := w.replicas[0].connection
		c.Await(&moment{nominating, 1, func(_ subject, send func()) bool {
			c.stall("pods", 10*time.Second)
			send()
			return true
		}})
	})
}

// asks creates a pod that asks for so many devices by an extended resource.
func (s *script) asks(after time.Duration, name string, devices int) *script {
	return s.add(after, fmt.Sprintf("pod %s with %d of %s", name, devices, resourceNames[2]), func(w *World) {
		p := &podPlan{name: name}
		p.with(builder.Extended(v1.ResourceName(resourceNames[2]), fmt.Sprint(devices)), "")
		p.create(w)
	})
}

// fill has a pod without devices run on a node.
func (w *World) fill(node, name, cpu string) {
	pod := builder.Pod(name, builder.Container("c", "cpu", cpu), func(p *v1.Pod) {
		p.Namespace, p.Spec.SchedulerName, p.Spec.NodeName, p.Status.Phase = namespace, "nobody", node, v1.PodRunning
	})
	ignore(w.client.CoreV1().Pods(namespace).Create(w.ctx, pod, metav1.CreateOptions{}))
}

// must has the history fail with the error, if there is one.
func (w *World) must(err error) {
	if err != nil {
		w.fail("a step of the history: %v", err)
	}
}

// passes lives through the history, in which nothing may be wrong.
func (s *script) passes(t *testing.T) {
	h := &History{seed: long, replicas: 1, themes: s.themes, steps: s.steps}
	w := Live(t, h, nil)
	if *trace {
		t.Logf("\n%s", w.Transcript())
	}
	require.Empty(t, w.failures, "%s", w.Transcript())
}
