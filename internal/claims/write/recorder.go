package write

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
)

// Reasons and actions of the events.
const (
	ReasonAllocated = "DevicesAllocated"
	ReasonReleased  = "DevicesReleased"

	actionAllocating = "Allocating"
	actionReleasing  = "Releasing"
)

// Recorder sends events about changes of allocations.
type Recorder struct {
	// Events sends the events. It must not wait for the API server, and must have a client of its
	// own, so that requests of the scheduler do not wait for those of events.
	Events events.EventRecorder
	// Limit is shared by the whole scheduler.
	Limit *Limit
	// Versions has the API version in which the server has claims.
	Versions Versions
}

// Versions has the versions of an API server.
type Versions interface {
	// ClaimVersion returns the apiVersion of claims.
	ClaimVersion() string
}

// Told returns Options.Changed, which sends events about changes of allocations. It raises the limit to
// perSecond if the limit is lower; with 0 no events are sent.
func Told(events events.EventRecorder, perSecond int32, limit *Limit, versions Versions) func(context.Context, Change) {
	if perSecond == 0 || events == nil {
		return nil
	}
	limit.AtLeast(int(perSecond))
	return (&Recorder{Events: events, Limit: limit, Versions: versions}).Changed
}

// Changed sends an event, unless the limit is reached. It returns at once.
func (r *Recorder) Changed(ctx context.Context, change Change) {
	if !r.Limit.allow(klog.FromContext(ctx)) {
		return
	}
	reason, action, verb := ReasonAllocated, actionAllocating, "Allocated"
	if change.Released {
		reason, action, verb = ReasonReleased, actionReleasing, "Released"
	}
	// The reference names the claim's version after the write, which makes each event unique:
	// events that differ only in the note would be counted as repetitions of the first.
	claim := r.reference(change.Claim)
	text := note(verb, change)
	if pod := change.Cause.Pod; pod != nil {
		r.Events.Eventf(claim, pod, v1.EventTypeNormal, reason, action, "%s", text)
	} else {
		r.Events.Eventf(claim, nil, v1.EventTypeNormal, reason, action, "%s", text)
	}
}

// reference returns the part of a claim that an event refers to, in an API version in which clients
// find it.
func (r *Recorder) reference(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		TypeMeta: metav1.TypeMeta{Kind: "ResourceClaim", APIVersion: r.Versions.ClaimVersion()},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
		},
	}
}
