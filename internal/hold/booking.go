package hold

import (
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Booking is the time for which devices are held for pods that may not exist yet.
type Booking struct {
	UID        types.UID
	Generation int64
	// Others may use the devices if they are surely gone at Start. From End on they may, which the next plan may see later.
	Start, End time.Time
	// For reports whether the devices are for a pod; group is "namespace/name" of its PodGroup.
	For func(pod *v1.Pod, group string) bool
}

// isAs reports whether a booking is as it was when devices were held for it before, for the same pods and times.
func (b *Booking) isAs(before *Booking) bool {
	return b != nil && b.UID == before.UID && b.Generation == before.Generation && b.Start.Equal(before.Start) && b.End.Equal(before.End)
}

// outlasts reports whether the devices of a claim are known to be free at the start.
func (b *Booking) outlasts(holding *Holding) bool {
	return !holding.Gone.IsZero() && !holding.Gone.After(b.Start)
}

// The reasons of a Refusal. They are those of conditions.
const (
	CannotFit    = "CannotFit"
	ExceedsLimit = "ExceedsLimit"
	TooMany      = "TooManyBookings"
)

const (
	fitsNowhere = "no nodes have the devices even once everything that ends by itself has ended"
	cutShort    = "no place was found in the time that a plan may take; fewer kinds of pods or fewer pods would help"
	tooMany     = "as many others as may be at the same time come before it"
)

// A Refusal is why nothing is held, with a reason and a message for a condition. The zero value is none.
type Refusal struct{ Reason, Message string }

// refuse sets the refusal. It returns no hold.
func (w *Waiting) refuse(reason, message string) *Hold {
	w.Refusal = Refusal{reason, message}
	return nil
}

// keepInUse reduces the devices in use to those that are kept for a booking when its pods have ended: none before the start, none that an
// earlier holder is to get, and as many as fit into the limits.
func (p *planner) keepInUse(one *Waiting) {
	uses := one.InUse
	one.InUse = nil
	if len(uses) == 0 {
		return
	}
	if p.Now.Before(one.Booking.Start) {
		one.Briefly = uses
		return
	}
	if p.planned[true] >= p.Limits.MaxHolds {
		one.refuse(TooMany, tooMany)
		return
	}
	taken := make(devices)
	for _, place := range p.taken {
		maps.Copy(taken, devicesIn(place.uses...))
	}
	for _, use := range uses {
		devices := p.devicesByClass(use)
		if class := p.quota.exceeded(one, devices); class != "" {
			one.refuse(ExceedsLimit, p.quota.describe(class, devices[class]))
			continue
		}
		if taken.haveAny(use) {
			continue
		}
		one.InUse, p.stays[use.Claim.UID] = append(one.InUse, use), one
		p.quota.count(one, devices)
	}
	if len(one.InUse) > 0 {
		p.planned[true]++
	}
}
