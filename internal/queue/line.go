package queue

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
)

// line has a held pod wait until it is due, or for its turn.
func (t *Turns) line(own *heldPod, now time.Time) {
	t.number++
	own.number, own.isLater = t.number, own.due.After(now)
	if own.isLater {
		at, _ := slices.BinarySearchFunc(t.later, own, compareDue)
		t.later = slices.Insert(t.later, at, own)
		return
	}
	n := own.of
	if len(n.line) == 0 {
		n.used = t.used
		t.waiting[n] = true
	}
	at, _ := slices.BinarySearchFunc(n.line, own, compare)
	n.line = slices.Insert(n.line, at, own)
}

// drop takes a pod, nil for none, from those that are held.
func (t *Turns) drop(own *heldPod) {
	if own == nil {
		return
	}
	delete(t.held, own.pod.UID)
	if own.isLater {
		at, _ := slices.BinarySearchFunc(t.later, own, compareDue)
		t.later = slices.Delete(t.later, at, at+1)
		return
	}
	n := own.of
	at, _ := slices.BinarySearchFunc(n.line, own, compare)
	if n.line = slices.Delete(n.line, at, at+1); len(n.line) == 0 {
		n.line = nil
		delete(t.waiting, n)
	}
}

// first is the namespace whose turn is next: that with the pod of the highest priority, and of these the one that has used the
// least.
func (t *Turns) first() (first *namespace) {
	for n := range t.waiting {
		if first == nil || before(n, first) {
			first = n
		}
	}
	return first
}

func before(a, b *namespace) bool {
	first, second := a.line[0], b.line[0]
	return cmp.Or(cmp.Compare(priority(second), priority(first)), cmp.Compare(a.used, b.used), cmp.Compare(first.number, second.number)) < 0
}

func priority(own *heldPod) int32 { return corev1helpers.PodPriority(own.pod) }

// compare orders the pods of a namespace. A pod's priority never changes.
func compare(a, b *heldPod) int {
	return cmp.Or(cmp.Compare(priority(b), priority(a)), cmp.Compare(a.number, b.number))
}

func compareDue(a, b *heldPod) int {
	return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.number, b.number))
}

// settle adds the last attempt to what attempts of its namespace take.
func (t *Turns) settle(now time.Time) {
	last := t.last
	if last.of == nil || last.ended.IsZero() {
		return // One that ended with an error says nothing.
	}
	cost := last.ended.Sub(last.began)
	if last.rejected {
		if last.busy {
			cost += min(now.Sub(last.ended), mostAfter)
		}
		cost = max(ordinary, cost)
	}
	if last.of.known {
		cost = last.of.cost + (cost-last.of.cost)/4
	}
	last.of.cost, last.of.known = cost, true
}

func (n *namespace) isCostly() bool { return n.cost >= ordinary }

// namespace returns what is known of one, and makes it.
func (t *Turns) namespace(name string) *namespace {
	if n := t.namespaces[name]; n != nil {
		return n
	}
	if len(t.namespaces) >= manyNamespaces {
		for name, n := range t.namespaces {
			if len(n.line) == 0 {
				delete(t.namespaces, name)
			}
		}
	}
	n := &namespace{cost: unknown}
	t.namespaces[name] = n
	return n
}

// noteTries notes that a pod is being tried, which is one attempt more, or about to be.
func (t *Turns) noteTries(pod types.UID, more int, now time.Time) {
	if now.Sub(t.rotated) >= backoff {
		t.before, t.recent, t.rotated = t.recent, make(map[types.UID]tries), now
	}
	last, _ := t.triesOf(pod)
	t.recent[pod] = tries{number: last.number + more}
}

// noteEnd notes how the latest attempt for a pod ended.
func (t *Turns) noteEnd(pod types.UID, rejected bool) {
	last, _ := t.triesOf(pod)
	t.recent[pod] = tries{last.number, rejected}
}

// triesOf returns how often a pod was tried in the last backoff, or shortly before.
func (t *Turns) triesOf(pod types.UID) (last tries, found bool) {
	if last, found = t.recent[pod]; !found {
		last, found = t.before[pod]
	}
	return last, found
}
