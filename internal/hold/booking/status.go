package booking

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The conditions of a DeviceBooking.
const (
	conditionPlanned = "Planned"
	conditionActive  = "Active"
	conditionEnded   = "Ended"
)

// mostListed limits the nodes and devices in a status.
const mostListed = 64

// An Outcome is the part of a plan for a booking that has not ended.
type Outcome struct {
	// Planned is whether all copies have devices; it is unknown while an expression is being evaluated.
	Planned         metav1.ConditionStatus
	Reason, Message string
	Nodes, Devices  []string
}

// Says reports whether the status has a condition with a reason already.
func (b *Booking) Says(reason string) bool {
	return b.isCurrent() && slices.ContainsFunc(b.Status.Conditions, func(c metav1.Condition) bool { return c.Reason == reason })
}

// IsPlanned reports whether the status says that the booking has devices.
func (b *Booking) IsPlanned() bool {
	return b.isCurrent() && meta.IsStatusConditionTrue(b.Status.Conditions, conditionPlanned)
}

// Shows reports whether the status shows a state already, with a condition that has a reason and a message.
func (b *Booking) Shows(s State, reason, message string) bool {
	says := func(c metav1.Condition) bool { return c.Reason == reason && c.Message == message }
	return b.isCurrent() && slices.ContainsFunc(b.Status.Conditions, says) && meta.IsStatusConditionTrue(b.Status.Conditions, conditionActive) == s.Active &&
		(b.Invalid != nil || b.Status.Start != nil && b.Status.Start.Equal(&metav1.Time{Time: s.Start}))
}

// Next returns the status after a plan. It is the present one if nothing has changed.
func (b *Booking) Next(s State, used bool, plan Outcome, now time.Time) Status {
	next := Status{ObservedGeneration: b.Generation, LastUsed: b.Status.LastUsed}
	for _, condition := range b.Status.Conditions {
		next.Conditions = append(next.Conditions, *condition.DeepCopy())
	}
	set := func(name string, status metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&next.Conditions, metav1.Condition{
			Type: name, Status: status, Reason: reason, Message: message, ObservedGeneration: b.Generation, LastTransitionTime: metav1.Time{Time: now},
		})
	}
	if b.Invalid == nil {
		next.Start, next.End = &metav1.Time{Time: s.Start}, &metav1.Time{Time: s.End}
	}
	switch {
	case s.Ended != "":
		set(conditionEnded, metav1.ConditionTrue, s.Ended, s.endedText())
		if ended := meta.FindStatusCondition(next.Conditions, conditionEnded); ended.LastTransitionTime.Time.Before(s.Start) {
			ended.LastTransitionTime = metav1.Time{Time: now} // It had ended the last time as well.
		}
		set(conditionActive, metav1.ConditionFalse, "Ended", "")
		set(conditionPlanned, metav1.ConditionFalse, "Ended", "")
		return next
	case s.Active:
		set(conditionActive, metav1.ConditionTrue, "Started", "")
		if used && now.Sub(b.lastUsed(now)) >= b.notesEvery() {
			next.LastUsed = &metav1.Time{Time: now.Truncate(time.Second)}
		}
	default:
		set(conditionActive, metav1.ConditionFalse, "NotStarted", "")
	}
	// What is said of the former time of a repeated booking stays until the next one starts.
	if s.Active || b.endedUnused(now).IsZero() {
		set(conditionEnded, metav1.ConditionFalse, "NotEnded", "")
	}
	set(conditionPlanned, plan.Planned, plan.Reason, plan.Message)
	next.Nodes, next.Devices = plan.Nodes[:min(len(plan.Nodes), mostListed)], plan.Devices[:min(len(plan.Devices), mostListed)]
	return next
}

// Settled reports whether the status shows already that a booking has ended.
func (b *Booking) Settled(s State) bool { return s.Ended != "" && b.Shows(s, s.Ended, s.endedText()) }

// endedText returns the message about the end.
func (s State) endedText() string {
	what := "the time is over"
	if s.Ended == Unused {
		what = "no pod that it is for was waiting or running for the grace period"
	}
	return fmt.Sprintf("%s (from %s to %s)", what, s.Start.UTC().Format(time.RFC3339), s.End.UTC().Format(time.RFC3339))
}
