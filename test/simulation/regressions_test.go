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
	pod := builder.Pod(name, append(edits, builder.Container("c", "cpu", cpu), builder.Using(builder.Uses(name)...), func(p *v1.Pod) {
		p.Namespace, p.Spec.SchedulerName, p.Spec.Priority, p.Status.Phase = namespace, builder.SchedulerName, &priority, v1.PodPending
	})...)
	ignore(w.client.CoreV1().Pods(namespace).Create(w.ctx, pod, metav1.CreateOptions{}))
}

// joins creates a pod that uses a claim which others use.
func (s *script) joins(after time.Duration, name, claim string, priority int32) *script {
	return s.add(after, fmt.Sprintf("pod %s joins claim %s with priority %d", name, claim, priority), func(w *World) {
		pod := builder.Pod(name, builder.Container("c"), builder.Using(builder.Uses(claim)...), func(p *v1.Pod) {
			p.Namespace, p.Spec.SchedulerName, p.Spec.Priority, p.Status.Phase = namespace, builder.SchedulerName, &priority, v1.PodPending
		})
		ignore(w.client.CoreV1().Pods(namespace).Create(w.ctx, pod, metav1.CreateOptions{}))
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
	client := kubernetes.NewForConfigOrDie(configOf(w.server.Connect(1, Calm), foreign))
	pod := builder.Pod(name, builder.Container("c"), builder.Using(builder.Uses(name)...), func(p *v1.Pod) {
		p.Namespace, p.Spec.SchedulerName, p.Status.Phase = namespace, foreign, v1.PodPending
	})
	pod, err := client.CoreV1().Pods(namespace).Create(w.ctx, builder.Unsaved(namespace, pod), metav1.CreateOptions{})
	w.must(err)
	claim := builder.Unsaved(namespace, builder.Claim(name, builder.Request("r", "gpu")).Allocated("node-0", device))
	status := claim.Status
	status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
	claim, err = client.ResourceV1().ResourceClaims(namespace).Create(w.ctx, claim, metav1.CreateOptions{})
	w.must(err)
	claim.Status = status
	if _, err = client.ResourceV1().ResourceClaims(namespace).UpdateStatus(w.ctx, claim, metav1.UpdateOptions{}); err != nil {
		return err
	}
	binding := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID}, Target: v1.ObjectReference{Kind: "Node", Name: "node-0"}}
	return client.CoreV1().Pods(namespace).Bind(w.ctx, binding, metav1.CreateOptions{})
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
	s.themes = map[string]bool{podGroups: true}
	return s.add(after, fmt.Sprintf("PodGroup %s of Kubernetes of %d pods with 4 CPU and priority %d", name, pods, priority), func(w *World) {
		w.createTemplate("one")
		w.createPodGroup(name, pods, priority, "")
		for i := range pods {
			p := &podPlan{name: fmt.Sprintf("%s-%d", name, i)}
			p.with(builder.InGroup(name), "of group %s", name)
			p.with(func(pod *v1.Pod) {
				pod.Spec.Priority, pod.Spec.Containers[0].Resources.Requests = &priority, builder.Resources("cpu", "4")
			}, "4 CPU and priority %d", priority)
			p.with(builder.Using(builder.FromTemplate("one")...), "template one")
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

// TestRegressions lives through histories in which something was wrong once.
func TestRegressions(t *testing.T) {
	for name, history := range map[string]*script{
		// Seed 225 of an early generator: room was kept for a preemptor that could not be tried any more.
		"the claim of a preemptor is deleted while its victim ends": new(script).node(2).pod(10*time.Second, "victim", 1, "12", 0).
			pod(10*time.Second, "preemptor", 2, "12", 100).
			add(time.Second, "delete the claim of the preemptor", func(w *World) { w.deleteClaim("preemptor") }).
			pod(time.Minute, "other", 1, "12", 0),
		// Seed 100120: each conflict had the pod tried again at once, 3,000 times a second.
		"a pod joins a claim that has lost and is in use": new(script).node(2).foreign(10*time.Second, "first", "dev-0").
			foreign(time.Second, "second", "dev-0").joins(10*time.Second, "joins", "second", 0),
		"a pod joins a claim that has lost until the other one ends": new(script).node(2).foreign(10*time.Second, "first", "dev-0").
			foreign(time.Second, "second", "dev-0").joins(10*time.Second, "joins", "second", 0).
			add(time.Minute, "delete pod first", func(w *World) { w.deletePod("first") }),
		// Seed 3100002 of an early generator: the claim was always reserved for one of them, so that nobody released it.
		"pods share a claim that loses while they settle": new(script).node(3).foreign(10*time.Second, "early", "dev-2").
			pod(100*time.Millisecond, "a", 2, "1", 0).foreign(200*time.Millisecond, "late", "dev-0").
			join(100, 100*time.Millisecond, "a").add(time.Second, "claim a is to be free by now", func(w *World) {
			claim, err := w.client.ResourceV1().ResourceClaims(namespace).Get(w.ctx, "a", metav1.GetOptions{})
			w.must(err)
			if claim.Status.Allocation != nil {
				w.fail("claim a keeps what it has lost")
			}
		}),
		// Seed 9702170: the first pod had others evicted, and a pod without priority gave up what they left. So it went on, every five minutes.
		"the pods of a gang have different priorities": new(script).node(2).pod(10*time.Second, "a", 1, "1", 10).pod(0, "b", 1, "1", 10).
			gang(10*time.Second, "gang", 2, 100, 0).runs(10*time.Minute, "a").runs(0, "b"),
		// Seed 30039 of an early generator: a gang waited without end for the end of pods that nobody had evicted.
		"the server refuses to evict a pod for a gang": new(script).node(2).pod(10*time.Second, "victim", 2, "1", 0).
			weather(10*time.Second, Weather{Refused: 1}).gang(0, "gang", 2, 100).weather(5*time.Second, Calm).
			runs(2*time.Minute, "gang-0"),
		// What faults/nomination-kept.patch puts back: PreFilter turns the preemptor away, because the class is gone.
		"the class of a preemptor is deleted while its victim ends": new(script).node(2).pod(10*time.Second, "victim", 1, "12", 0).
			pod(10*time.Second, "preemptor", 2, "12", 100).
			add(time.Second, "delete the class, and make another one", func(w *World) {
				w.deleteClass("gpu")
				w.createClass("big")
			}).
			add(time.Minute, "pod other with 1 device of class big", func(w *World) {
				w.createPodWithClaim("other", builder.Request("r", "big"), "1", 0)
			}),
		// Seed 309803625: kube-scheduler ended a nomination that its informer of pods did not have yet, and wrote nothing.
		"the class of a preemptor is deleted before its nomination is seen": new(script).node(2).pod(10*time.Second, "victim", 1, "12", 0).
			add(9*time.Second, "no changes of pods are seen from the next nomination on", func(w *World) {
				c := w.replicas[0].connection
				c.Await(&moment{nominating, 1, func(_ subject, send func()) bool {
					c.stall("pods", 10*time.Second)
					send()
					return true
				}})
			}).
			pod(time.Second, "preemptor", 2, "12", 100).
			add(time.Second, "delete the class, and make another one and a node without devices", func(w *World) {
				w.deleteClass("gpu")
				w.createClass("big")
				w.createNode("node-1") // It has the preemptor tried.
			}).
			add(time.Minute, "pod other with 1 device of class big", func(w *World) {
				w.createPodWithClaim("other", builder.Request("r", "big"), "12", 0)
			}).
			runs(time.Minute, "other"),
		// Kube-scheduler itself leaves the pods of a PodGroup nominated that does not fit any more.
		"the class of a PodGroup of Kubernetes is deleted while its victim ends": new(script).node(2).pod(10*time.Second, "victim", 2, "12", 0).
			podGroup(10*time.Second, "gang", 2, 100).
			add(time.Second, "delete the class, and make another one", func(w *World) {
				w.deleteClass("gpu")
				w.createClass("big")
			}).
			add(time.Minute, "pod other with 1 device of class big and 12 CPU", func(w *World) {
				w.createPodWithClaim("other", builder.Request("r", "big"), "12", 0)
			}).runs(time.Minute, "other"),
		"a pod of a PodGroup of Kubernetes is deleted while its victim ends": new(script).node(2).pod(10*time.Second, "victim", 2, "12", 0).
			podGroup(10*time.Second, "gang", 2, 100).
			add(time.Second, "delete pod gang-1", func(w *World) { w.deletePod("gang-1") }).
			pod(10*time.Second, "other", 1, "13", 0).runs(2*time.Minute, "other"),
		"a PodGroup of Kubernetes is deleted while its victim ends": new(script).node(2).pod(10*time.Second, "victim", 2, "12", 0).
			podGroup(10*time.Second, "gang", 2, 100).
			add(time.Second, "delete PodGroup gang", func(w *World) {
				group, err := w.client.SchedulingV1beta1().PodGroups(namespace).Get(w.ctx, "gang", metav1.GetOptions{})
				w.must(err)
				group.Finalizers = nil
				_, err = w.client.SchedulingV1beta1().PodGroups(namespace).Update(w.ctx, group, metav1.UpdateOptions{})
				w.must(err)
				w.deleteGroup("gang")
			}).
			pod(10*time.Second, "other", 1, "13", 0).runs(2*time.Minute, "other"),
		"the claim of a pod of a PodGroup of Kubernetes is deleted while its victim ends": new(script).node(2).pod(10*time.Second, "victim", 2, "12", 0).
			podGroup(10*time.Second, "gang", 2, 100).
			add(time.Second, "delete the claim of pod gang-1, and the templates", func(w *World) {
				w.deleteTemplate("one")
				pod, err := w.client.CoreV1().Pods(namespace).Get(w.ctx, "gang-1", metav1.GetOptions{})
				w.must(err)
				for _, made := range pod.Status.ResourceClaimStatuses {
					w.deleteClaim(*made.ResourceClaimName)
				}
			}).
			pod(10*time.Second, "other", 1, "13", 0).runs(2*time.Minute, "other"),
		// Seed 227 of an early generator: what was kept for the preemptor was kept until the flush of the queue.
		"a pod joins the claim of a victim": new(script).node(2).pod(10*time.Second, "victim", 1, "1", 0).
			pod(10*time.Second, "preemptor", 2, "1", 100).joins(500*time.Millisecond, "joins", "victim", 10).
			runs(time.Minute, "preemptor"),
		"a pod of higher priority joins the claim of a victim": new(script).node(2).pod(10*time.Second, "victim", 1, "1", 0).
			pod(10*time.Second, "preemptor", 2, "1", 100).joins(500*time.Millisecond, "joins", "victim", 1000).
			pod(time.Minute, "other", 1, "1", 0).runs(time.Minute, "other"),
		"a pod joins the claim of a victim of a gang": new(script).node(2).pod(10*time.Second, "victim", 1, "1", 0).
			gang(10*time.Second, "gang", 2, 100).joins(500*time.Millisecond, "joins", "victim", 10).
			runs(time.Minute, "gang-0").runs(0, "gang-1"),
		// Seeds 373243103 and 739680098: the pod was bound where a device plugin offers the resource, while its status named a claim that was gone.
		"the class of a pod's extended resource is for others before it is bound": new(script).node(1).extended(10*time.Second, "asks",
			"the request is lost, and the class stands for nothing", func(w *World, _ *Connection, _ func()) { w.nameClass("gpu", "") }).
			add(time.Minute, "a device plugin of node-0 offers it", func(w *World) { w.offer("node-0", resourceNames[0], "1") }),
		"a device plugin takes over before a pod is bound with a device": new(script).node(1).extended(10*time.Second, "asks",
			"the request is lost, and a device plugin offers it", func(w *World, _ *Connection, _ func()) { w.offer("node-0", resourceNames[0], "1") }).
			add(time.Minute, "nothing", func(*World) {}),
		"a class stands for the extended resource of a pod again": new(script).node(1).extended(10*time.Second, "asks",
			"the request is lost, and the class stands for nothing", func(w *World, _ *Connection, _ func()) { w.nameClass("gpu", "") }).
			add(time.Minute, "class gpu stands for it again", func(w *World) { w.nameClass("gpu", resourceNames[0]) }).runs(time.Minute, "asks"),
		// Seed 235981640: a pod that was bound to a node with a device plugin got a claim on another node.
		"the answer to a binding without devices is lost": new(script).node(1).add(time.Second, "node-1 offers the resource, and node-0 is cordoned", func(w *World) {
			w.createNode("node-1")
			w.offer("node-1", resourceNames[0], "1")
			w.cordon("node-0", true)
		}).extended(10*time.Second, "asks", "the answer is lost, no changes of pods are seen, and the nodes change places", func(w *World, c *Connection, send func()) {
			c.stall("pods", 10*time.Second)
			send()
			w.cordon("node-1", true)
			w.cordon("node-0", false)
		}).runs(time.Minute, "asks"),
		// Seed 691905711: pods were tried, and others evicted for them, although nothing could be written.
		"pods come while the process is stopped that schedules": new(script).node(4).pod(5*time.Second, "low", 1, "1", 0).
			outlives(10*time.Second, 22*time.Second).
			podGroup(5*time.Second, "group", 2, 100).gang(0, "gang", 2, 100).pod(0, "single", 1, "1", 10).
			idle(30*time.Second, "low").
			runs(2*time.Minute, "group-0").runs(0, "group-1").runs(0, "gang-0").runs(0, "gang-1"),
		// Seed 400610: a gang that could not be planned was planned again every second.
		"a gang whose device class does not exist": new(script).gang(0, "gang", 3, 0).add(0, "node-0", func(w *World) { w.createNode("node-0") }),
		// Seed 7401 of an early generator: the pod waited for the end of its claim, which was kept for the pod.
		"the claim of a pod is deleted when the process ends that has allocated it": new(script).node(2).
			ends(10*time.Second, binding, unsent, func(w *World) { w.deleteClaim("a") }).pod(0, "a", 2, "1", 0).
			pod(2*time.Minute, "other", 2, "1", 0).runs(2*time.Minute, "other"),
		"the node of a pod has no room when the process ends that has allocated its claim": new(script).node(2).
			ends(10*time.Second, binding, unsent, func(w *World) { w.fill("node-0", "hog", "12") }).pod(0, "a", 2, "12", 0).
			pod(2*time.Minute, "other", 1, "1", 0).runs(2*time.Minute, "other"),
		// Seeds 500441 and 500893 of an early generator: kube-controller-manager is told of the pod's end, but not that the claim was the pod's.
		"a pod is gone when the process ends that has reserved its claim for extended resources": new(script).node(2).
			ends(10*time.Second, reserving, stored, func(*World) {}).asks(0, "a", 2).
			add(time.Second, "delete its claim", (*World).deleteAllClaims).add(time.Second, "delete pod a", func(w *World) { w.deletePod("a") }).
			pod(3*time.Minute, "other", 1, "1", 0).runs(time.Minute, "other"),
	} {
		t.Run(name, history.passes)
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
