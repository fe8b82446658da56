package quartermaster

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/hold"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// haveBooking reports whether pods can have free devices of bookings, all of them together. Then none need to be held for them.
func (w *holdWorld) haveBooking(pods []*v1.Pod, needs []*hold.Pod) bool {
	var taken []ledger.Use
	for i, pod := range pods {
		on := w.bookedFor(pod)
		if len(on) == 0 {
			return false
		}
		if i == 0 {
			if w.checks[pod.Namespace]++; w.checks[pod.Namespace] > mostChecks {
				return true
			}
		}
		uses := w.solveBooked(needs[i], on, ledger.WhatIf(w.state.Ledger, nil, append(w.heldFrom(pod), taken...)))
		if uses == nil {
			return false
		}
		taken = append(taken, uses...)
	}
	return len(pods) > 0
}

// bookedFor returns the nodes with free devices of bookings that are for a pod and have started.
func (w *holdWorld) bookedFor(pod *v1.Pod) (on []string) {
	for _, h := range w.state.holds.Holds() {
		if h.Booking != nil && h.Ready && !w.now.Before(h.Booking.Start) && h.Booking.For(pod, preemption.GroupOf(pod)) {
			on = append(on, h.NodeNames()...)
		}
	}
	return on
}

// heldFrom returns what is held or planned for others that a pod must leave alone.
func (w *holdWorld) heldFrom(pod *v1.Pod) (held []ledger.Use) {
	priority := w.priority(pod)
	for _, h := range w.state.holds.Against(pod, preemption.GroupOf(pod), priority, w.now) {
		held = append(held, h.All()...)
	}
	return w.state.served()[0].nominated.PlannedAgainst(pod, priority, nil, held...)
}

// solveBooked returns the devices that a pod gets on one of some nodes, nil if it fits on none.
func (w *holdWorld) solveBooked(needs *hold.Pod, on []string, usage ledger.View) []ledger.Use {
	for _, name := range on {
		node, err := w.state.served()[0].nodes.Get(name)
		if room, known := w.state.Free.Settled(name); err != nil || known && !room.Holds(needs.Takes) || !needs.Admits(node) {
			continue
		}
		if uses := needs.Solve(node, usage); uses != nil {
			return uses
		}
	}
	return nil
}

// bookingsFor returns the bookings that are for a pod.
func (w *holdWorld) bookingsFor(pod *v1.Pod) (found []types.UID) {
	group := preemption.GroupOf(pod)
	for uid, one := range w.considered {
		if one.IsFor(pod, group) {
			found = append(found, uid)
		}
	}
	return found
}
