package booking

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A State is the state of a booking at a moment.
type State struct {
	// Start and End are those of the present or next time for which it holds devices.
	Start, End time.Time
	// Active is set from the start on, until the booking ends. Ended is why it has ended: Over or Unused; "" if it has not.
	Active bool
	Ended  string
}

// Why a booking has ended.
const (
	Over   = "Over"
	Unused = "Unused"
)

// At returns the state at a time. used says whether a pod that the booking is for waits or runs.
func (b *Booking) At(now time.Time, used bool) State {
	s := State{}
	s.Start, s.End = b.window(now)
	switch {
	case b.endedUnused(now).After(s.Start):
		s.Ended = Unused
	case !now.Before(s.End):
		s.Ended = Over
	case !used && !now.Before(s.Start) && now.Sub(b.idleSince(s.Start, now)) >= b.grace():
		s.Ended = Unused
	case !now.Before(s.Start):
		s.Active = true
	}
	return s
}

// A span is a time for which a booking holds devices, worked out at a moment. It is right until it ends.
type span struct{ at, start, end time.Time }

// window returns the present time for which a repeated booking holds devices, or the next one; that of another booking may be over.
func (b *Booking) window(now time.Time) (start, end time.Time) {
	if known := b.last.Load(); known != nil && !now.Before(known.at) && now.Before(known.end) {
		return known.start, known.end
	}
	start = b.first()
	if b.schedule != nil {
		// The first time after each of these moments.
		after := start.Add(-time.Second)
		for _, moment := range []time.Time{now.Add(-b.Spec.Duration.Duration), b.endedUnused(now), b.recorded(now).Add(-time.Second)} {
			if moment.After(after) {
				after = moment
			}
		}
		start = b.next(after)
	}
	end = start.Add(b.Spec.Duration.Duration)
	b.last.Store(&span{now, start, end})
	return start, end
}

// first returns the earliest start.
func (b *Booking) first() time.Time {
	if b.Spec.Start != nil {
		return b.Spec.Start.Time
	}
	return b.CreationTimestamp.UTC()
}

// mostSkipped is the number of minutes that a zone repeats or leaves out at most: those of a day and an hour.
const mostSkipped = 25 * 60

// next returns the first time of the schedule after a moment, the zero time if there is none in five years. The schedule is asked as if the
// clock was that of UTC: where a zone left out a day, cron would search it for ever. A time that the clock of the zone leaves out is none, and
// one that it shows twice counts once.
func (b *Booking) next(after time.Time) time.Time {
	as := func(t time.Time, zone *time.Location) time.Time {
		return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, zone)
	}
	clock := as(after.In(b.zone), time.UTC)
	for range mostSkipped {
		if clock = b.schedule.Next(clock); clock.IsZero() {
			break
		}
		if at := as(clock, b.zone); at.After(after) && as(at, time.UTC).Equal(clock) {
			return at.UTC()
		}
	}
	return time.Time{}
}

// isCurrent reports whether the status is about the present spec.
func (b *Booking) isCurrent() bool { return b.Status.ObservedGeneration == b.Generation }

// recorded returns the start that the status has, if it is past. When one time of a repeated booking overlaps the next, the later one
// counts as soon as it was noticed.
func (b *Booking) recorded(now time.Time) time.Time {
	if start := b.Status.Start; start != nil && b.isCurrent() && !start.After(now) {
		return start.Time
	}
	return time.Time{}
}

// endedUnused returns when the booking ended because nobody used it; the zero time if it did not. A moment that is yet to come was
// written by another clock.
func (b *Booking) endedUnused(now time.Time) time.Time {
	ended := meta.FindStatusCondition(b.Status.Conditions, conditionEnded)
	if ended == nil || ended.Status != metav1.ConditionTrue || ended.Reason != Unused || !b.isCurrent() || ended.LastTransitionTime.After(now) {
		return time.Time{}
	}
	return ended.LastTransitionTime.Time
}

// idleSince returns since when no pod was seen that a booking is for, which has started.
func (b *Booking) idleSince(start, now time.Time) time.Time {
	since := start
	if created := b.CreationTimestamp.Time; created.After(since) {
		since = created
	}
	if used := b.lastUsed(now); used.After(since) {
		since = used
	}
	return since
}

// lastUsed returns when the booking was last in use; the zero time if that is not known. It may be somewhat later than now: another
// scheduler, whose clock is ahead, has noted it. What is far ahead was noted by a clock that is wrong, and would keep the booking for too long.
func (b *Booking) lastUsed(now time.Time) time.Time {
	if used := b.Status.LastUsed; used != nil && used.Sub(now) <= b.grace() {
		return used.Time
	}
	return time.Time{}
}

// grace returns the time without pods after which the booking ends: pods may have been there for a while after they were noted.
func (b *Booking) grace() time.Duration { return b.Spec.GracePeriod.Duration + b.notesEvery() }

// notesEvery returns the time between two notes that the booking is in use.
func (b *Booking) notesEvery() time.Duration {
	return min(max(b.Spec.GracePeriod.Duration/15, 10*time.Second), time.Minute)
}
