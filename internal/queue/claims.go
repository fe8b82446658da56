package queue

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
	"github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// ClaimChanged wakes the pods that the change of a claim that they use may help. It wakes them directly
// and not through the scheduling queue, for the reason given at Pods. Pods that wait for the devices of
// other claims are woken by changes of the ledger, see WakeForDevices.
//
// A pod that is woken finds the event in the state, which has to be refreshed before. Two events complete a
// new claim: its creation, and its name in the status of the pod. The later one finds both.
//
// An interrupted watch may show neither an allocation nor its end: see WakeUsersOf.
func (e *Events) ClaimChanged(ctx context.Context, event informer.Event[resourceapi.ResourceClaim]) {
	if event.Before == nil && !event.Initial {
		e.Made.note(event.After)
	}
	if e.ClaimMatters(event) {
		if err := e.wakeUsers(ctx, event.After, changesAllocation(event)); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot requeue the pods that wait for a claim", "claim", klog.KObj(event.After))
		}
	}
	if event.After == nil {
		e.wakeOwner(event.Before)
	}
}

// wakeUsers wakes the pods that use the claim. Pods that were never tried go to the scheduling queue,
// which keeps them if they wait for other claims as well.
func (e *Events) wakeUsers(ctx context.Context, claim *resourceapi.ResourceClaim, atOnce bool) error {
	wake := e.Waker.Wake
	if atOnce {
		wake = e.Waker.WakeAtOnce
	}
	pods, err := e.Claims.Users(claim.Namespace, claim.Name)
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
		e.Waker.queue.Activate(klog.FromContext(ctx), untried)
	}
	return nil
}

// wakeOwner wakes the pod that waits for the deletion of a claim that an earlier attempt made for its
// extended resources. The claim of a failed attempt is deleted as well, but its pod must wait as long
// as after other failures.
func (e *Events) wakeOwner(claim *resourceapi.ResourceClaim) {
	owner := claims.MadeFor(claim)
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

// ClaimMatters reports whether the event may help pods that use the claim. Metadata does not matter, except
// for the owner. The deletion does not matter: the pods then wait for a new claim. New consumers do not
// matter. Consumers that leave do not matter while there is room for more and others stay: pods that
// yield would keep each other busy, because each of them reserves the claim in vain.
func (e *Events) ClaimMatters(event informer.Event[resourceapi.ResourceClaim]) bool {
	if event.Before == nil || event.After == nil {
		return event.After != nil
	}
	before, after := event.Before.Status, event.After.Status
	before.ReservedFor, after.ReservedFor = nil, nil
	if !conversion.SameAlphaClaim(event.Before, event.After) ||
		!quantity.DeepEqual(&before, &after) ||
		!quantity.DeepEqual(&event.Before.Spec, &event.After.Spec) ||
		!apiequality.Semantic.DeepEqual(event.Before.OwnerReferences, event.After.OwnerReferences) {
		return true
	}
	// InUse is called last: a group may have a thousand pods, and each writes to the claim without
	// changing its consumers.
	consumers := event.Before.Status.ReservedFor
	return !slices.Equal(consumers, event.After.Status.ReservedFor) &&
		(len(consumers) >= e.Claims.Server.ConsumerLimit(event.Before) || !e.Claims.InUse(event.After))
}

// changesAllocation reports whether the claim is new, or was allocated or deallocated. Pods that
// share a claim wait for that; other changes, for example new consumers, are frequent.
func changesAllocation(event informer.Event[resourceapi.ResourceClaim]) bool {
	return event.Before == nil || (event.Before.Status.Allocation == nil) != (event.After.Status.Allocation == nil)
}

// Events wakes the pods of one profile of the scheduler that an event may help.
type Events struct {
	Pods  *Pods
	Waker *Waker
	Made  *ClaimsMade
	// Claims finds the pods that use a claim, and Pools returns a pool with all its devices, nil if there is none.
	Claims *claims.Claims
	Pools  interface {
		Pool(id inventory.PoolID) *inventory.NodePool
	}
	// Context limits the time for evaluating which pods an event helps, see NewContext.
	Context context.Context
}
