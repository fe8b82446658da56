package simulation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
)

// refused has the foreign scheduler ask for a device that it must not get.
func (s *script) refused(after time.Duration, name, device string, is func(error) bool) *script {
	return s.add(after, "the foreign scheduler asks for "+device+" for claim "+name, func(w *World) {
		if err := w.runForeign(name, device); !is(err) {
			w.fail("claim %s was to be refused %s, and the answer is: %v", name, device, err)
		}
	})
}

// TestGuardedHistories lives through histories in which the API server asks a guard.
func TestGuardedHistories(t *testing.T) {
	unanswered := func(err error) bool { return apierrors.IsInternalError(err) }
	late := func(after time.Duration) *script {
		return new(script).node(2).add(after, "the watches of the guard are late by up to a minute", func(w *World) { w.guard.beLate(time.Minute, 20*time.Second) })
	}
	for name, history := range map[string]*script{
		"a device that a pod of ours has":                  new(script).node(2).pod(10*time.Second, "a", 2, "1", 0).refused(10*time.Second, "b", "dev-0", write.Denied).runs(0, "a"),
		"a device that a pod of ours has but no watch yet": late(10*time.Second).pod(0, "a", 2, "1", 0).refused(time.Second, "b", "dev-0", write.Denied).runs(0, "a"),
		"a device that nobody publishes":                   new(script).node(2).refused(10*time.Second, "b", "dev-7", write.Denied),
		"a device that the foreign scheduler has": new(script).node(2).foreign(10*time.Second, "a", "dev-0").refused(time.Second, "b", "dev-0", write.Denied).
			pod(time.Second, "c", 1, "1", 0).runs(time.Minute, "c"),
		"a pod is preempted while what the guard has allowed for it is not stored yet": new(script).node(2).
			add(10*time.Second, "what the guard allows is stored up to 20 s later", func(w *World) {
				w.group.Go(func() { w.server.slowDown(w.ctx, 20*time.Second, 30*time.Second) })
			}).
			pod(0, "a", 2, "1", 0).pod(time.Second, "b", 2, "1", 10).runs(2*time.Minute, "b"),
		"nothing is allocated while no guard answers": new(script).node(2).
			add(10*time.Second, "the guard does not answer for 30 s", func(w *World) { w.guard.goAway(30 * time.Second) }).
			refused(time.Second, "a", "dev-0", unanswered).pod(0, "b", 2, "1", 0).runs(time.Minute, "b"),
		"the clock is wrong by which a claim is reserved for another pod": new(script).about(clocks).node(2).clock(0, time.Hour).
			pod(10*time.Second, "a", 1, "1", 0).joins(10*time.Second, "b", "a", 0).runs(time.Minute, "b"),
	} {
		t.Run(name, func(t *testing.T) {
			h := &History{seed: long, replicas: 1, themes: map[string]bool{guarded: true, clocks: history.themes[clocks]}, steps: history.steps}
			w := Live(t, h, nil)
			if *trace {
				t.Logf("\n%s", w.Transcript())
			}
			require.Empty(t, w.failures, "%s", w.Transcript())
		})
	}
}
