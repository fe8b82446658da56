package simulation

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// happening is an action at a moment.
type happening struct {
	text string
	do   func(w *World, s subject, d time.Duration)
}

// happenings may come just before or just after any write of a leader. Deleted objects return after a while, except pods and
// claims.
var happenings = []happening{
	{"its pod is deleted", func(w *World, s subject, _ time.Duration) { w.deletePod(s.pod) }},
	{"its claim is deleted", func(w *World, s subject, _ time.Duration) { w.deleteClaim(s.claim) }},
	{"its claim and its pod are deleted", func(w *World, s subject, _ time.Duration) {
		w.deleteClaim(s.claim)
		w.deletePod(s.pod)
	}},
	{"its node is deleted", func(w *World, s subject, d time.Duration) {
		w.deleteNode(s.node)
		w.afterwards(d, func() { w.createNode(s.node) })
	}},
	{"its node is cordoned", func(w *World, s subject, d time.Duration) {
		w.cordon(s.node, true)
		w.afterwards(d, func() { w.cordon(s.node, false) })
	}},
	{"the slices of its node are deleted", func(w *World, s subject, d time.Duration) { w.withdraw(s.node, d) }},
	{"the classes are deleted", func(w *World, _ subject, d time.Duration) {
		for _, class := range w.namesOf("resource.k8s.io/v1/deviceclasses") {
			w.deleteClass(class)
			w.afterwards(d, func() { w.createClass(class) })
		}
	}},
	{"the templates are deleted", func(w *World, _ subject, d time.Duration) {
		for _, kind := range w.namesOf("resource.k8s.io/v1/resourceclaimtemplates") {
			w.deleteTemplate(kind)
			w.afterwards(d, func() { w.createTemplate(kind) })
		}
	}},
	{"all pods and claims are deleted", func(w *World, _ subject, _ time.Duration) { w.deleteAll() }},
}

// afterwards performs an action after a delay.
func (w *World) afterwards(d time.Duration, do func()) {
	w.group.Go(func() {
		if pause(w.ctx, d) == nil {
			do()
		}
	})
}

// moment plans an action at a write of a leader.
func (g *generator) moment() {
	kind, n := pick(g, writeKinds...), 1+g.random.IntN(4)
	scheduler := builder.SchedulerName
	if g.has(others) && g.one(3) {
		scheduler = others
	}
	d := time.Duration(g.random.IntN(20)) * time.Second
	switch g.random.IntN(8) {
	case 0:
		g.stopAt(scheduler, kind, n)
	case 1:
		g.endAtBinding(scheduler)
	case 2:
		g.loseBinding(scheduler)
	case 3:
		g.turnAway(scheduler)
	default:
		happens, early, slow := pick(g, happenings...), g.one(2), g.one(3)
		if g.has(others) && g.one(2) {
			happens, slow = g.joins(scheduler), true
		}
		g.at(scheduler, kind, n, func(w *World, r *replica) func(subject, func()) bool {
			c := r.connection
			return func(s subject, send func()) bool {
				if !early {
					send()
				}
				w.note("%s (pod %s, claim %s, node %s)", happens.text, s.pod, s.claim, s.node)
				happens.do(w, s, d)
				if early {
					send()
				}
				if slow {
					c.Set(Weather{Latency: 3 * time.Second, Lag: Calm.Lag})
					c.stall("resourceclaims", d)
					w.afterwards(d, func() { c.Set(Calm) })
				}
				return true
			}
		}, "before the server has it: %t, %s; what comes back does after %s, until then requests are slow and no changes of claims are seen: %t", early, happens.text, d, slow)
	}
}

// joins deletes the pod of a write, and at the same time creates a pod of the other scheduler for the same claim.
func (g *generator) joins(scheduler string) happening {
	p, other := g.newPod(), others
	if scheduler == others {
		other = builder.SchedulerName
	}
	return happening{"its pod is deleted, and pod " + p.name + " comes for its claim", func(w *World, s subject, _ time.Duration) {
		if strings.HasPrefix(s.claim, "claim-") { // Claims of templates are for one pod.
			p.with(builder.Using(builder.Uses(s.claim)...), "claim %s", s.claim)
			p.with(func(pod *v1.Pod) { pod.Spec.SchedulerName = other }, "for %s", other)
			p.create(w)
		}
		w.deletePod(s.pod)
	}}
}

// turnAway deletes for good an object that a preemptor needs, just after the eviction of its victims. From then on PreFilter
// rejects the preemptor, and other pods may get the devices that become free: one more pod comes for them.
func (g *generator) turnAway(scheduler string) {
	p, d := g.newPod(), time.Duration(10+g.random.IntN(60))*time.Second
	g.at(scheduler, preempting, 1+g.random.IntN(2), func(w *World, _ *replica) func(subject, func()) bool {
		return func(s subject, send func()) bool {
			send()
			kind := w.takeAway(s)
			w.afterwards(d, func() {
				p.with(builder.Using(builder.FromTemplate(kind)...), "template %s", kind)
				w.note("create pod %s", p)
				p.create(w)
			})
			return true
		}
	}, "its volume claim is deleted, or a class that its claim asks for; after %s pod %s comes for the devices", d, p)
}

// at plans an action at the n-th write of the replica that leads at the time of the step.
func (g *generator) at(scheduler string, kind writeKind, n int, happens func(*World, *replica) func(subject, func()) bool, format string, args ...any) {
	args = append([]any{scheduler, kind.name, n}, args...)
	g.add(g.soon(), func(w *World) {
		r := w.leader(scheduler)
		r.connection.Await(&moment{kind, n, happens(w, r)})
	}, "when %s comes to %s %d: "+format, args...)
}

// stopAt stops the process as soon as the server has handled a write.
func (g *generator) stopAt(scheduler string, kind writeKind, n int) {
	d, compacted := g.stopped(), g.one(3)
	g.at(scheduler, kind, n, func(w *World, r *replica) func(subject, func()) bool {
		c := r.connection
		return func(_ subject, send func()) bool {
			send()
			w.note("%s is stopped", r.name)
			w.freeze(c, d, compacted)
			return true
		}
	}, "it is stopped for %s; the server forgets what changed meanwhile: %t", d, compacted)
}

// endAtBinding ends a process while a binding is on its way to a node that other pods must not use any more.
func (g *generator) endAtBinding(scheduler string) {
	late, cordoned := time.Duration(15+g.random.IntN(40))*time.Second, g.one(2)
	if g.has(podGroups) && g.one(2) {
		g.endWithShared(scheduler, late)
		return
	}
	g.at(scheduler, binding, 1+g.random.IntN(3), func(w *World, r *replica) func(subject, func()) bool {
		ends := w.ending(r, onItsWay, late)
		return func(s subject, send func()) bool {
			if cordoned {
				w.cordon(s.node, true)
				w.afterwards(2*late, func() { w.cordon(s.node, false) })
			}
			return ends(s, send)
		}
	}, "it ends, and the server gets the binding %s later; the node is cordoned: %t", late, cordoned)
}

// loseBinding loses the answer to a binding, while the process sees no changes of pods.
func (g *generator) loseBinding(scheduler string) {
	d := time.Duration(2+g.random.IntN(20)) * time.Second
	cordoned := g.one(2)
	g.at(scheduler, binding, 1+g.random.IntN(3), func(w *World, r *replica) func(subject, func()) bool {
		c := r.connection
		return func(s subject, send func()) bool {
			send()
			c.stall("pods", d)
			if cordoned {
				w.cordon(s.node, true)
				w.afterwards(2*d, func() { w.cordon(s.node, false) })
			}
			return false
		}
	}, "the answer is lost, and no changes of pods are seen for %s; the node is cordoned: %t", d, cordoned)
}

// missEnd has the process that schedules see no changes of a resource from a write for a pod on, and list all of it later. The pod ends in
// between, and another one may get its name.
func (g *generator) missEnd() {
	kind, resource, end := pick(g, nominating, binding), pick(g, "pods", "resourceclaims"), pick(g, "finished", "deleted", "replaced")
	d := time.Duration(2+g.random.IntN(20)) * time.Second
	g.at(builder.SchedulerName, kind, 1+g.random.IntN(4), func(w *World, r *replica) func(subject, func()) bool {
		c := r.connection
		return func(s subject, send func()) bool {
			w.missChanges(c, resource, d)
			send()
			w.afterwards(d/2, func() {
				switch end {
				case "finished":
					w.finishPod(s.pod)
				case "deleted":
					w.deletePod(s.pod)
				case "replaced":
					w.replacePod(s.pod)
				}
			})
			return true
		}
	}, "no changes of %s are seen for %s, and all are listed then; the pod is %s in between", resource, d, end)
}

// crash plans the end of a replica at a write.
func (g *generator) crash() {
	replica, writes := g.random.IntN(g.history.replicas), 1+g.random.IntN(12)
	way, late := pick(g, unsent, stored, onItsWay), time.Duration(g.random.IntN(50))*time.Second
	g.add(g.soon(), func(w *World) { w.crash(replica, writes, way, late) }, "replica %d ends at its write %d, %s (if so, %s)", replica, writes, way, late)
}
