package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
)

// FollowClaims wakes the pods that a change of a claim that they use may help. It wakes them directly
// and not through the scheduling queue, for the reason given at Pods. Pods that wait for the devices of
// other claims are woken by changes of the ledger, see WakeForDevices.
//
// A pod that is woken finds the event in the state: the informers' stores are up to date before any
// handler sees an event, and the ledger is refreshed here first. Two events complete a new claim: its
// creation, and its name in the status of the pod. The later one finds both.
func (e *Events) FollowClaims(ctx context.Context, informer cache.SharedIndexInformer) error {
	happened := func(before, after any) {
		if err := e.ClaimHappened(ctx, before, after); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot requeue the pods that wait for a claim")
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if claim, ok := obj.(*resourceapi.ResourceClaim); ok && !initial {
				e.Made.note(claim)
			}
			happened(nil, obj)
		},
		UpdateFunc: happened,
		DeleteFunc: func(obj any) { happened(obj, nil) },
	})
	if err != nil {
		return fmt.Errorf("watch claims: %w", err)
	}
	return nil
}

// ClaimHappened wakes the pods that the event may help. before and after come from an informer, nil if
// the claim did not exist.
func (e *Events) ClaimHappened(ctx context.Context, before, after any) error {
	return e.happened(ctx, newClaimEvent(before, after))
}

// happened wakes the pods that the event may help.
func (e *Events) happened(ctx context.Context, event claimEvent) error {
	if event.replaces() {
		return errors.Join(e.happened(ctx, claimEvent{before: event.before}), e.happened(ctx, claimEvent{after: event.after}))
	}
	claim := event.latest()
	if claim != nil {
		e.State.RefreshClaim(claim)
	}
	if claim != nil && e.matters(event) {
		if err := e.wakeUsers(ctx, claim, event.changesAllocation()); err != nil {
			return err
		}
	}
	if claim != nil && event.after == nil {
		e.wakeOwner(claim)
	}
	return nil
}

// wakeUsers wakes the pods that use the claim. Pods that were never tried go to the scheduling queue,
// which keeps them if they wait for other claims as well.
func (e *Events) wakeUsers(ctx context.Context, claim *resourceapi.ResourceClaim, atOnce bool) error {
	wake := e.Waker.Wake
	if atOnce {
		wake = e.Waker.WakeAtOnce
	}
	pods, err := e.State.PodsUsing(claim.Namespace, claim.Name)
	if err != nil {
		return err
	}
	untried := make(map[string]*v1.Pod)
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			continue
		}
		if entry := e.Pods.Get(pod.UID); entry != nil {
			wake(entry)
		} else {
			untried[pod.Namespace+"/"+pod.Name] = pod
		}
	}
	if len(untried) > 0 {
		e.Waker.activate(klog.FromContext(ctx), untried)
	}
	return nil
}

// wakeOwner wakes the pod that waits for the deletion of a claim that an earlier attempt made for its
// extended resources. The claim of a failed attempt is deleted as well, but its pod must wait as long
// as after other failures.
func (e *Events) wakeOwner(claim *resourceapi.ResourceClaim) {
	owner := e.State.MadeForPod(claim)
	if owner == "" {
		return
	}
	entry := e.Pods.Get(owner)
	if entry == nil {
		return
	}
	if _, leftOver := entry.WantedExtended(); leftOver {
		e.Waker.WakeAtOnce(entry)
	}
}

// ClaimMatters reports whether a change of a claim may help pods that use it; before is nil if
// the claim is new, after if it is gone.
func (e *Events) ClaimMatters(before, after *resourceapi.ResourceClaim) bool {
	return e.matters(claimEvent{before: before, after: after})
}

// matters reports whether the event may help pods that use the claim. Metadata does not matter, except
// for the owner. The deletion does not matter: the pods then wait for a new claim. New consumers do not
// matter. Consumers that leave do not matter while there is room for more and others stay: pods that
// yield would keep each other busy, because each of them reserves the claim in vain.
func (e *Events) matters(event claimEvent) bool {
	if event.before == nil || event.after == nil {
		return event.after != nil
	}
	before, after := event.before.Status, event.after.Status
	before.ReservedFor, after.ReservedFor = nil, nil
	if !conversion.SameAlphaClaim(event.before, event.after) ||
		!quantity.DeepEqual(&before, &after) ||
		!quantity.DeepEqual(&event.before.Spec, &event.after.Spec) ||
		!apiequality.Semantic.DeepEqual(event.before.OwnerReferences, event.after.OwnerReferences) {
		return true
	}
	// InUse is called last: a group may have a thousand pods, and each writes to the claim without
	// changing its consumers.
	consumers := event.before.Status.ReservedFor
	return !slices.Equal(consumers, event.after.Status.ReservedFor) &&
		(len(consumers) >= e.State.ConsumerLimit(event.before) || !e.State.InUse(event.after))
}

// changesAllocation reports whether the claim is new or gone, or was allocated or deallocated. Pods that
// share a claim wait for that; other changes, for example new consumers, are frequent.
func (e claimEvent) changesAllocation() bool {
	return e.before == nil || e.after == nil ||
		(e.before.Status.Allocation == nil) != (e.after.Status.Allocation == nil)
}

// claimEvent is a change of a claim: created if before is nil, deleted if after is.
type claimEvent struct {
	before, after *resourceapi.ResourceClaim
}

func newClaimEvent(oldObj, newObj any) claimEvent {
	before, after := informer.Versions[resourceapi.ResourceClaim](oldObj, newObj)
	return claimEvent{before: before, after: after}
}

// replaces reports whether a claim was deleted and another claim of that name created. A new list after
// a lost connection shows that as one change. It must not look like a change of metadata to the pods
// that wait for the new claim.
func (e claimEvent) replaces() bool {
	return e.before != nil && e.after != nil && e.before.UID != e.after.UID
}

// latest returns the newer of the two states.
func (e claimEvent) latest() *resourceapi.ResourceClaim {
	if e.after != nil {
		return e.after
	}
	return e.before
}
