package simulation

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/quartermaster-dra/quartermaster/test/checker"
)

// quiet is how long nothing happens at the end: longer than any back-off, pause and bad weather.
const quiet = 5 * time.Minute

// spin is how many requests there may be in the last minute of the quiet, besides those that come at intervals.
const spin = 30

// Run lives a history through, and returns its world after the end. It is to be called in a bubble.
func (h *History) Run(profiles []config.KubeSchedulerProfile, prepare func(*World)) *World {
	w := NewWorld(h.seed, profiles)
	defer w.End()
	if prepare != nil {
		prepare(w)
	}
	if err := w.Controllers(); err != nil {
		w.fail("controllers: %v", err)
		return w
	}
	w.Replicas(h.replicas)
	for _, s := range h.steps {
		_ = pause(w.ctx, s.after)
		w.note("> %s", s.text)
		s.do(w)
	}
	_ = pause(w.ctx, quiet-time.Minute)
	before := w.server.count()
	_ = pause(w.ctx, time.Minute)
	if n := w.server.count() - before; n > spin {
		w.fail("%d requests in a minute in which nothing happens", n)
	}
	w.settled()
	return w
}

// settled checks what must hold once nothing happens any more.
func (w *World) settled() {
	served := func(*v1.Pod) bool { return true }
	violations, err := checker.Check(w.ctx, w.client, checker.Options{Settled: true, Served: served})
	if err != nil {
		w.fail("checker: %v", err)
	}
	for _, v := range violations {
		w.fail("%s", v)
	}
}
