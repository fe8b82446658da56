package simulation

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// replaceUnseen replaces pod ends by one of its name that fits nowhere. The watches of the scheduler show that in one update.
func replaceUnseen(w *World) {
	w.finishPod("ends")
	w.createPod("ends", 0, builder.Container("c", "cpu", "99"))
	w.server.compact()
	w.replicas[0].connection.cut("pods")
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
		// The silence of the closed watch was taken for that of the other scheduler: two pods were bound with the device.
		"the watches of pods are closed while the other scheduler decides": new(script).node(3).foreign(10*time.Second, "early", "dev-2").
			pod(time.Second, "ours", 1, "1", 0).
			add(100*time.Millisecond, "for 5s, there are no watches of pods, and pod late of the foreign scheduler waits", func(w *World) {
				w.replicas[0].connection.shutFor("pods", 5*time.Second)
				w.createForeign("late")
			}).
			add(time.Second, "it gets the device that claim ours has", func(w *World) { w.must(w.bindForeign("late", w.deviceOf("ours"))) }).
			add(30*time.Second, "the two have different devices by now", func(w *World) {
				if ours := w.deviceOf("ours"); ours == "" || ours == w.deviceOf("late") {
					w.fail("claims ours and late have device %s", ours)
				}
			}).runs(0, "ours"),
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
			nominatesUnseen(9*time.Second).
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
		// Seed 175292434706510: preemption found that nobody had to go, again and again. The devices stand for 6 CPUs.
		"a PodGroup of Kubernetes whose devices stand for CPUs preempts": new(script).about(cpus).node(1).cpus(4).pod(10*time.Second, "victim", 1, "3", 0).
			podGroup(10*time.Second, "gang", 2, 100).runs(time.Minute, "gang-0").runs(0, "gang-1"),
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
		// Seed 162706109378538: the preemptor waited five minutes, since it was kept out of the queue while the victim was forgotten.
		"a pod without devices preempts one that waits for its volume": new(script).node(1).add(time.Second, "pod victim with 12 CPU and a volume that takes a while", func(w *World) {
			w.createStorageClass()
			w.createVolumeClaim("volume", 8*time.Second, false)
			w.createPodWithClaim("victim", builder.Request("r", "gpu"), "12", 0, withVolume)
		}).add(time.Second, "pod preemptor with 12 CPU and priority 100", func(w *World) {
			w.createPod("preemptor", 100, builder.Container("c", "cpu", "12"))
		}).runs(time.Minute, "preemptor"),
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
		// Seed 9153949989711: the scheduler's cache lost the pod, but nobody was tried again.
		"the nomination and the end of a bound pod are not seen": new(script).node(2).
			nominatesUnseen(10*time.Second).
			pod(0, "ends", 1, "12", 10).pod(0, "waits", 1, "12", 0).
			add(5*time.Second, "pod ends ends, the watches of pods are cut, and the server forgets what changed", func(w *World) {
				w.finishPod("ends")
				w.server.compact()
				w.replicas[0].connection.cut("pods")
			}).
			runs(30*time.Second, "waits"),
		// Kube-scheduler does not remove a pod from its cache whose place another one of its name takes unseen.
		"the end of a bound pod is not seen, and another one has its name": new(script).node(2).
			nominatesUnseen(10*time.Second).
			pod(0, "ends", 1, "12", 10).pod(0, "waits", 1, "12", 0).
			add(5*time.Second, "pod ends is deleted, one of its name asks for more than there is, and the watches of pods are cut", replaceUnseen).
			runs(30*time.Second, "waits"),
		// Kube-scheduler's process ended: it took the two pods for one that left its node.
		"a pod on a node ends, and another one has its name, unseen": new(script).node(1).pod(0, "ends", 1, "12", 0).runs(10*time.Second, "ends").
			pod(0, "waits", 1, "12", 0).
			add(time.Second, "no changes of pods are seen for 10s", func(w *World) { w.replicas[0].connection.stall("pods", 10*time.Second) }).
			add(time.Second, "pod ends is deleted, one of its name asks for more than there is, and the watches of pods are cut", replaceUnseen).
			runs(30*time.Second, "waits"),
		// Kube-scheduler moves the pod in its cache, and tells nobody of the room that it leaves.
		"a pod is bound elsewhere while it is being bound": new(script).node(1).
			add(time.Second, "node-1 without room, where another scheduler binds the next pod that is being bound", func(w *World) {
				w.createNode("node-1")
				w.fill("node-1", "hog", "12")
				w.replicas[0].connection.Await(&moment{binding, 1, func(about subject, send func()) bool {
					pod, err := w.client.CoreV1().Pods(namespace).Get(w.ctx, "moves", metav1.GetOptions{})
					w.must(err)
					elsewhere := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID}, Target: v1.ObjectReference{Kind: "Node", Name: "node-1"}}
					w.must(w.client.CoreV1().Pods(namespace).Bind(w.ctx, elsewhere, metav1.CreateOptions{}))
					w.must(pause(w.ctx, 5*time.Second))
					send()
					return true
				}})
			}).
			add(time.Second, "pod moves with 12 CPU", func(w *World) { w.createPod("moves", 10, builder.Container("c", "cpu", "12")) }).
			pod(time.Second, "waits", 1, "12", 0).runs(30*time.Second, "waits"),
		// Seed 691905711: pods were tried, and others evicted for them, although nothing could be written.
		"pods come while the process is stopped that schedules": new(script).node(4).pod(5*time.Second, "low", 1, "1", 0).
			outlives(10*time.Second, 22*time.Second).
			podGroup(5*time.Second, "group", 2, 100).gang(0, "gang", 2, 100).pod(0, "single", 1, "1", 10).
			idle(30*time.Second, "low").
			runs(2*time.Minute, "group-0").runs(0, "group-1").runs(0, "gang-0").runs(0, "gang-1"),
		// Seed 400610: a gang that could not be planned was planned again every second.
		"a gang whose device class does not exist": new(script).gang(0, "gang", 3, 0).add(0, "node-0", func(w *World) { w.createNode("node-0") }),
		// Seed 9803065: the claim of a PodGroup was deallocated for a preemptor while a binding of the former process was under way.
		"a pod is evicted whose group has another pod that is about to be bound": new(script).about(podGroups).node(1).
			add(10*time.Second, "at the second binding, a pod with 9 CPU comes to the node, and the process ends; the server gets the binding 40s later", func(w *World) {
				r := w.leader(builder.SchedulerName)
				end := w.ending(r, onItsWay, 40*time.Second)
				r.connection.Await(&moment{binding, 2, func(about subject, send func()) bool {
					w.fill("node-0", "hog", "9")
					return end(about, send)
				}})
			}).
			add(0, "PodGroup group of 2 pods that share a claim", func(w *World) {
				w.createClaim("shared", "one")
				w.createPodGroup("group", 2, 0, "shared")
				for _, name := range []string{"first", "second"} {
					p := &podPlan{name: name}
					p.with(builder.InGroup("group"), "of group group")
					p.with(builder.Using(builder.Uses("shared")...), "claim shared")
					p.with(func(pod *v1.Pod) {
						pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse("6")}
					}, "6 CPU")
					p.create(w)
				}
			}).
			pod(10*time.Second, "high", 1, "1", 100).runs(5*time.Minute, "hog"),
		// Seed 109660559003343: the finalizer of the PodGroup was gone before its controller knew of the pods, which were then bound.
		"a PodGroup is deleted in the instant in which it is created": new(script).node(2).sharing(10*time.Second, "gang", 3).
			add(0, "delete PodGroup gang", func(w *World) { w.deleteGroup("gang") }),
		// Seed 9803119: the claim was kept for a pod that waited for its end, and for a PodGroup without pods.
		"a claim is deleted that was kept for a PodGroup without pods when the process ends": new(script).about(podGroups).node(1).
			add(10*time.Second, "PodGroup group of 1 pod with claim shared", func(w *World) {
				w.createClaim("shared", "one")
				w.createPodGroup("group", 1, 0, "shared")
				p := &podPlan{name: "first"}
				p.with(builder.InGroup("group"), "of group group")
				p.with(builder.Using(builder.Uses("shared")...), "claim shared")
				p.create(w)
			}).
			ends(10*time.Second, binding, unsent, func(w *World) { w.deleteClaim("shared") }).joins(0, "joins", "shared", 0).
			add(time.Second, "delete pod first", func(w *World) { w.deletePod("first") }).
			pod(3*time.Minute, "other", 1, "1", 0).runs(time.Minute, "other"),
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
