package claimevents

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/claimwriter"
)

// The reasons of the events, and what the scheduler was doing.
const (
	ReasonAllocated = "DevicesAllocated"
	ReasonReleased  = "DevicesReleased"

	actionAllocating = "Allocating"
	actionReleasing  = "Releasing"
)

// Recorder makes events of changes.
type Recorder struct {
	// Events is where they go. It does not wait for the API server, and has a client of its own, so that requests
	// of the scheduler do not wait for those of events.
	Events events.EventRecorder
	// Limit is the one of the scheduler.
	Limit *Limit
	// APIVersion returns the version in which the API server has claims.
	APIVersion func() string
}

// Told has changes of allocations told in events, with a limit that is at least the given one; by nobody if that is 0.
func Told(events events.EventRecorder, perSecond int32, limit *Limit, apiVersion func() string) claimwriter.Option {
	if perSecond == 0 || events == nil {
		return claimwriter.WithChanges(nil)
	}
	limit.AtLeast(int(perSecond))
	return claimwriter.WithChanges((&Recorder{Events: events, Limit: limit, APIVersion: apiVersion}).Changed)
}

// Changed makes an event, unless there were too many. It returns at once.
func (r *Recorder) Changed(ctx context.Context, change claimwriter.Change) {
	if !r.Limit.allow(klog.FromContext(ctx)) {
		return
	}
	reason, action, verb := ReasonAllocated, actionAllocating, "Allocated"
	if change.Released {
		reason, action, verb = ReasonReleased, actionReleasing, "Released"
	}
	// The version of the claim that was written, which the reference names, makes each event one of its own:
	// those that differ in nothing but the note would be counted as repetitions of the first.
	claim := r.reference(change.Claim)
	text := note(verb, change)
	if pod := change.Cause.Pod; pod != nil {
		r.Events.Eventf(claim, pod, v1.EventTypeNormal, reason, action, "%s", text)
	} else {
		r.Events.Eventf(claim, nil, v1.EventTypeNormal, reason, action, "%s", text)
	}
}

// reference is what of a claim an event refers to. The API version is one in which clients find it.
func (r *Recorder) reference(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		TypeMeta: metav1.TypeMeta{Kind: "ResourceClaim", APIVersion: r.APIVersion()},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
		},
	}
}
