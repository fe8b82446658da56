package simulation

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// refused has the foreign scheduler ask for a device that it must not get.
func (s *script) refused(after time.Duration, name, device string, is func(error) bool) *script {
	return s.add(after, "the foreign scheduler asks for "+device+" for claim "+name, func(w *World) {
		if err := w.runForeign(name, device); !is(err) {
			w.fail("claim %s was to be refused %s, and the answer is: %v", name, device, err)
		}
	})
}

// refuse has the API server refuse to allocate and to reserve claims for a while.
func (s *script) refuse(after, lasts time.Duration) *script {
	return s.add(after, fmt.Sprintf("no claim may be allocated or reserved for %s", lasts), func(w *World) {
		w.guard.refuses.Store(true)
		w.group.Go(func() {
			_ = pause(w.ctx, lasts)
			w.guard.refuses.Store(false)
		})
	})
}

// lose has all writes of a kind be lost for a while before the server has them.
func (s *script) lose(after time.Duration, kind writeKind, lasts time.Duration) *script {
	return s.add(after, fmt.Sprintf("each %s is lost for %s", kind.name, lasts), func(w *World) {
		end, connection := time.Now().Add(lasts), w.replicas[0].connection
		var again func()
		again = func() {
			connection.Await(&moment{kind, 1, func(_ subject, send func()) bool {
				if time.Now().After(end) {
					send()
					return true
				}
				again()
				return false
			}})
		}
		again()
	})
}

// sharing creates a PodGroup of Kubernetes with a claim for all of its pods.
func (s *script) sharing(after time.Duration, name string, pods int32) *script {
	s.themes = map[string]bool{podGroups: true}
	return s.add(after, fmt.Sprintf("PodGroup %s of %d pods that share a claim", name, pods), func(w *World) {
		claim := builder.Claim(name, builder.Request("r", "gpu").Count(2)).In(namespace).Obj()
		ignore(w.client.ResourceV1().ResourceClaims(namespace).Create(w.ctx, claim, metav1.CreateOptions{}))
		w.createPodGroup(name, pods, 0, name)
		for i := range pods {
			p := &podPlan{name: fmt.Sprintf("%s-%d", name, i)}
			p.with(builder.InGroup(name), "of group %s", name)
			p.with(builder.Using(builder.Uses(name)...), "claim %s", name)
			p.create(w)
		}
	})
}

// TestUsersOfGroups: a pod that waits does not hold in vain what a PodGroup uses on a node, whose entry in status.reservedFor is not that of a pod.
func TestUsersOfGroups(t *testing.T) {
	reserves := func(w *World) {
		claim, err := w.client.ResourceV1().ResourceClaims(namespace).Get(w.ctx, "gang", metav1.GetOptions{})
		w.must(err)
		pod, err := w.client.CoreV1().Pods(namespace).Get(w.ctx, "waits", metav1.GetOptions{})
		w.must(err)
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, write.OfPod(pod))
		_, err = w.client.ResourceV1().ResourceClaims(namespace).UpdateStatus(w.ctx, claim, metav1.UpdateOptions{})
		w.must(err)
	}
	new(script).node(2).sharing(10*time.Second, "gang", 2).runs(10*time.Second, "gang-0").
		add(0, "nothing new fits on node-0", func(w *World) { w.cordon("node-0", true) }).joins(time.Second, "waits", "gang", 0).
		add(time.Second, "a process that has ended has reserved the claim for the pod as well", reserves).passes(t)
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
		// Seed 583644886: kube-scheduler tries a PodGroup without any pause whose pods it has nodes for.
		"the claims of a PodGroup of Kubernetes are refused":    new(script).node(2).podGroup(10*time.Second, "gang", 2, 0).refuse(0, time.Minute).runs(2*time.Minute, "gang-0").runs(0, "gang-1"),
		"the claims of a gang of scheduler-plugins are refused": new(script).node(2).gang(10*time.Second, "gang", 2, 0).refuse(0, time.Minute).runs(2*time.Minute, "gang-0").runs(0, "gang-1"),
		"the bindings of a PodGroup of Kubernetes are lost":     new(script).node(2).podGroup(10*time.Second, "gang", 2, 0).lose(0, binding, time.Minute).runs(2*time.Minute, "gang-0").runs(0, "gang-1"),
		"the claim of a PodGroup of Kubernetes is refused":      new(script).node(2).sharing(10*time.Second, "gang", 2).refuse(0, time.Minute).runs(2*time.Minute, "gang-0").runs(0, "gang-1"),
		"the claim of a pod is refused":                         new(script).node(2).pod(10*time.Second, "a", 1, "1", 0).refuse(0, time.Minute).runs(2*time.Minute, "a"),
		"the clock is wrong by which a claim is reserved for another pod": new(script).about(clocks).node(2).clock(0, time.Hour).
			pod(10*time.Second, "a", 1, "1", 0).joins(10*time.Second, "b", "a", 0).runs(time.Minute, "b"),
	} {
		t.Run(name, func(t *testing.T) {
			h := &History{seed: long, replicas: 1, themes: map[string]bool{guarded: true}, steps: history.steps}
			maps.Copy(h.themes, history.themes)
			w := Live(t, h, nil)
			if *trace {
				t.Logf("\n%s", w.Transcript())
			}
			require.Empty(t, w.failures, "%s", w.Transcript())
		})
	}
}
