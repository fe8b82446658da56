package simulation

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// wants creates a pod with a claim of a kind, of the same name.
func (s *script) wants(after time.Duration, name, kind string) *script {
	return s.add(after, fmt.Sprintf("pod %s with a claim of kind %s", name, kind), func(w *World) {
		w.createClaim(name, kind)
		p := &podPlan{name: name}
		p.with(builder.Using(builder.Uses(name)...), "claim %s", name)
		p.create(w)
	})
}

// waits has the history fail if a pod is on a node by then.
func (s *script) waits(after time.Duration, name string) *script {
	return s.add(after, "pod "+name+" is to wait by now", func(w *World) {
		pod, err := w.client.CoreV1().Pods(namespace).Get(w.ctx, name, metav1.GetOptions{})
		w.must(err)
		if pod.Spec.NodeName != "" {
			w.fail("pod %s runs", name)
		}
	})
}

// deletes has a pod go.
func (s *script) deletes(after time.Duration, name string) *script {
	return s.add(after, "delete pod "+name, func(w *World) { w.deletePod(name) })
}

// shared has one device of which several claims consume 8Gi, or less.
func (s *script) shared(after time.Duration, generation int64, less, alone bool) *script {
	return s.add(after, fmt.Sprintf("a shared device in generation %d; less than usual: %t, for one claim: %t", generation, less, alone), func(w *World) {
		w.createClass("share")
		w.putSlice(sliceOf(sharesDriver, "node-0", 0, generation, 1).Devices(shareOf(0, less, alone)).Obj())
	})
}

// parts publishes some slices of a card.
func (s *script) parts(after time.Duration, generation int64, slots string, indices ...int) *script {
	return s.add(after, fmt.Sprintf("a card in generation %d with %s slots, slices %v", generation, slots, indices), func(w *World) {
		w.createClass("part")
		for _, index := range indices {
			slice := sliceOf(partsDriver, "node-0", index, generation, partSlices)
			partsOfCard(slice, index, 0, true, slots, "")
			w.putSlice(slice.Obj())
		}
	})
}

// permits has the namespace permit admin access or not.
func (s *script) permits(after time.Duration, on bool) *script {
	return s.add(after, fmt.Sprintf("the namespace permits admin access: %t", on), func(w *World) { w.permitAdmin(on) })
}

// selects has class gpu select by another expression.
func (s *script) selects(after time.Duration, expression string) *script {
	return s.add(after, "class gpu selects "+expression, func(w *World) { w.selectClass("gpu", expression) })
}

// TestKinds lives through histories of devices that are not simply for one claim.
func TestKinds(t *testing.T) {
	nobody, broken := selectorsOf("gpu")[1], selectorsOf("gpu")[3]
	for name, history := range map[string]*script{
		"shares are free again when a pod ends": new(script).node(0).shared(0, 1, false, false).
			wants(10*time.Second, "a", "share").wants(time.Second, "b", "share").wants(time.Second, "c", "share").
			runs(10*time.Second, "a").runs(0, "b").waits(0, "c").deletes(0, "a").runs(10*time.Second, "c"),
		"a device has less than before, and as much again": new(script).node(0).shared(0, 1, true, false).
			wants(10*time.Second, "a", "share").wants(time.Second, "b", "share").waits(10*time.Second, "b").
			shared(0, 2, false, false).runs(10*time.Second, "b").shared(0, 3, true, false).runs(10*time.Second, "b"),
		"a shared device is for one claim from now on": new(script).node(0).shared(0, 1, false, false).
			wants(10*time.Second, "a", "share-of-any-size").runs(10*time.Second, "a").shared(0, 2, false, true).
			wants(time.Second, "b", "share-of-any-size").waits(10*time.Second, "b").deletes(0, "a").runs(10*time.Second, "b").
			wants(0, "c", "share-of-any-size").waits(10*time.Second, "c").shared(0, 3, false, false).waits(10*time.Second, "c").
			deletes(0, "b").runs(10*time.Second, "c"),
		"a device with two shares is for one claim from now on": new(script).node(0).shared(0, 1, false, false).
			wants(10*time.Second, "a", "share-of-any-size").wants(0, "b", "share-of-any-size").runs(10*time.Second, "a").runs(0, "b").shared(0, 2, false, true),
		"a card is whole again when its part ends": new(script).node(0).parts(0, 1, "4", 0, 1, 2).
			wants(10*time.Second, "a", "share-of-part").wants(time.Second, "b", "share-of-part").runs(10*time.Second, "b").
			wants(0, "c", "whole").waits(10*time.Second, "c").deletes(0, "a").waits(10*time.Second, "c").deletes(0, "b").runs(10*time.Second, "c"),
		"a card has fewer slots than before": new(script).node(0).parts(0, 1, "4", 0, 1, 2).
			wants(10*time.Second, "a", "quarters").runs(10*time.Second, "a").parts(0, 2, "3", 0, 1, 2).
			wants(0, "b", "share-of-part").waits(10*time.Second, "b").parts(0, 3, "4", 0, 1, 2).runs(10*time.Second, "b"),
		"the counters of a card are published late": new(script).node(0).parts(0, 1, "4", 1, 2).
			wants(10*time.Second, "a", "whole").waits(10*time.Second, "a").parts(0, 1, "4", 0).runs(10*time.Second, "a"),
		"some parts of a card are published late": new(script).node(0).parts(0, 1, "4", 2, 0).
			wants(10*time.Second, "a", "halves").waits(10*time.Second, "a").parts(0, 1, "4", 1).runs(10*time.Second, "a"),
		"admin access takes nothing": new(script).node(1).permits(0, true).wants(10*time.Second, "watches", "admin-of-all").
			wants(time.Second, "a", "one").wants(time.Second, "also", "admin").runs(10*time.Second, "watches").runs(0, "a").runs(0, "also"),
		"the namespace permits no admin access for a while": new(script).node(1).permits(0, true).
			add(10*time.Second, "a claim for admin access", func(w *World) { w.createClaim("watches", "admin") }).permits(0, false).
			joins(time.Second, "watches", "watches", 0).waits(20*time.Second, "watches").permits(0, true).runs(time.Minute, "watches"),
		"a class selects nothing for a while":          new(script).node(1).selects(time.Second, nobody).wants(10*time.Second, "a", "one").waits(10*time.Second, "a").selects(0, selectorOf("gpu")).runs(10*time.Second, "a"),
		"the selector of a class fails for a while":    new(script).node(1).selects(time.Second, broken).wants(10*time.Second, "a", "one").waits(10*time.Second, "a").selects(0, selectorOf("gpu")).runs(10*time.Second, "a"),
		"a class selects the devices of other drivers": new(script).node(0).shared(0, 1, false, false).wants(10*time.Second, "a", "one").waits(10*time.Second, "a").selects(0, selectorsOf("gpu")[2]).runs(10*time.Second, "a"),
		"an extended resource stands for shares": new(script).node(0).shared(0, 1, true, false).add(time.Second, "class share stands for it", func(w *World) { w.nameClass("share", resourceNames[1]) }).
			add(10*time.Second, "3 pods with 1 of it, and one more", func(w *World) {
				for i := range 4 {
					p := &podPlan{name: fmt.Sprintf("asks-%d", i)}
					p.with(builder.Extended(v1.ResourceName(resourceNames[1]), "1"), "")
					p.create(w)
				}
			}).runs(10*time.Second, "asks-0").add(0, "delete all pods but the last", func(w *World) {
			for i := range 3 {
				w.deletePod(fmt.Sprintf("asks-%d", i))
			}
		}).runs(20*time.Second, "asks-3"),
	} {
		t.Run(name, history.passes)
	}
}
