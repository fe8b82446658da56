package simulation

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/quartermaster-dra/quartermaster/test/checker"
)

const (
	// patience is the maximum time without steps at the end: longer than any back-off, pause and bad weather.
	patience = 5 * time.Minute
	// look is the interval between two checks in that time.
	look = 5 * time.Second
	// long is the interval of the seeds whose histories have the whole quiet, in which spins are found.
	long = 10
)

// Run runs a history, and returns its world after the end. It has to be called in a bubble.
func (h *History) Run(prepare func(*World)) *World {
	w := NewWorld(h.seed)
	if err := h.configure(w); err != nil {
		w.fail("configuration: %v", err)
	}
	defer w.End()
	metrics.ActivePods().Set(0) // Package gate reads it, and schedulers of earlier histories have left pods in their queues.
	if prepare != nil {
		prepare(w)
	}
	if err := w.Controllers(); err != nil {
		w.fail("controllers: %v", err)
		return w
	}
	if h.themes[guarded] {
		if err := w.Guard(); err != nil {
			w.fail("guard: %v", err)
			return w
		}
	}
	w.Replicas(h.replicas)
	if h.themes[others] {
		w.Second()
	}
	if h.themes[foreign] {
		w.Foreign()
	}
	for _, s := range h.steps {
		if pause(w.ctx, s.after) != nil {
			return w
		}
		w.server.acts.Add(1)
		w.note("> %s", s.text)
		s.do(w)
	}
	for _, r := range w.replicas {
		r.connection.Await(nil)
	}
	if h.themes[conditions] {
		w.mend()
	}
	if h.themes[admin] {
		w.permitAdmin(true)
	}
	if h.seed%long == 0 {
		w.endure()
	} else {
		w.settle()
	}
	return w
}

// endure waits for the whole quiet, and checks that the server gets only few requests at its end.
func (w *World) endure() {
	if pause(w.ctx, patience-time.Minute) != nil {
		return
	}
	before := w.server.count()
	alone, of := w.attempts.now()
	if pause(w.ctx, time.Minute) != nil {
		return
	}
	for _, s := range w.attempts.since(alone, of) {
		w.fail("%s", s)
	}
	if n, kinds := w.server.since(before); n > spin {
		w.fail("%d requests in a minute in which nothing happens: %s", n, strings.Join(kinds, "; "))
	}
	w.settleWithin(time.Minute) // A group may have given up its devices a moment ago, after five minutes.
}

// settle waits until no check finds a violation and nothing is pending, or until patience ends.
func (w *World) settle() { w.settleWithin(patience) }

func (w *World) settleWithin(patience time.Duration) {
	var last []string
	for range patience / look {
		if pause(w.ctx, look) != nil {
			return
		}
		if w.isDisturbed() {
			continue
		}
		if last = w.violations(); len(last) == 0 {
			return
		}
	}
	for _, v := range last {
		w.fail("%s", v)
	}
}

// isDisturbed reports whether a disturbance that a step began still lasts.
func (w *World) isDisturbed() bool {
	for _, r := range w.replicas {
		if r.connection.isDisturbed() {
			return true
		}
	}
	return w.guard != nil && (w.guard.away.Load() || w.guard.late.Load())
}

// violations returns the rules that are violated once nothing happens any more.
func (w *World) violations() []string {
	served := func(pod *v1.Pod) bool { return pod.Spec.SchedulerName != foreign }
	groups := checker.PodGroupsFrom(w.client.CoreV1().RESTClient())
	found, err := checker.Check(w.ctx, w.client, checker.Options{Settled: true, Served: served, PodGroups: groups})
	if err != nil {
		return []string{"checker: " + err.Error()}
	}
	all := w.stillAttaching()
	for _, v := range found {
		if (v.Rule == checker.PodCouldRun || v.Rule == checker.GroupCouldRun) && w.drawsOnWithdrawn(v.Message) {
			continue
		}
		// Drivers may publish less than is in use, and the checker sees only the current slices. See clashesLeft.
		if v.Rule == checker.DeviceHeldTwice || v.Rule == checker.CapacityExceeded || v.Rule == checker.CounterOverdrawn {
			continue
		}
		all = append(all, v.String())
	}
	all = append(all, w.clashesLeft()...)
	return append(all, w.heldInVain()...)
}

// heldInVain returns claims with devices that are reserved only for waiting pods, and for no pod on a node: a pod that cannot run
// must not keep devices from others.
func (w *World) heldInVain() (all []string) {
	w.server.store.mutex.Lock()
	defer w.server.store.mutex.Unlock()
	for _, claim := range w.server.store.collections["resource.k8s.io/v1/resourceclaims"].sorted() {
		if !isAllocated(claim.fields) || w.hasBound(claim) {
			continue
		}
		for _, pod := range w.usersOf(claim) {
			if pod.text("deletionTimestamp") == "" && lookup(pod.fields, []string{"spec", "schedulerName"}) != foreign {
				all = append(all, fmt.Sprintf("HeldInVain: claim %s has devices for pod %s, which waits", claim.text("name"), pod.text("name")))
			}
		}
	}
	return all
}
