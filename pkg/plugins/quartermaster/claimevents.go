package quartermaster

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

	"github.com/quartermaster-dra/quartermaster/internal/apiversions"
	"github.com/quartermaster-dra/quartermaster/internal/extendedresource"
)

// claimEvents wakes the pods that may be helped by what happens to the claims that they
// use. It does so by itself and not through the scheduling queue, for the reason given at
// waitingPods. Pods that wait for the devices of other claims are woken by what the ledger
// says, see clusterState.freed.
//
// A pod that is woken finds the event in the state: the informers' stores are up to date
// before any handler hears of an event, and the ledger gets refreshed here first. Of the
// two events that complete a new claim, its creation and its name in the status of the
// pod, the later one finds both.
type claimEvents struct {
	pl   *Quartermaster
	made *claimsMade
}

func (pl *Quartermaster) followClaims(ctx context.Context, informer cache.SharedIndexInformer) (*claimEvents, error) {
	e := &claimEvents{pl: pl, made: newClaimsMade(pl.handle.SharedInformerFactory().Core().V1().Pods().Lister())}
	happened := func(before, after any) {
		if err := e.happened(ctx, newClaimEvent(before, after)); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot wake the pods that wait for a claim")
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { happened(nil, obj) },
		UpdateFunc: happened,
		DeleteFunc: func(obj any) { happened(obj, nil) },
	})
	if err != nil {
		return nil, fmt.Errorf("watch claims: %w", err)
	}
	return e, nil
}

// happened wakes whom the event may help.
func (e *claimEvents) happened(ctx context.Context, event claimEvent) error {
	if event.replaces() {
		return errors.Join(e.happened(ctx, claimEvent{before: event.before}), e.happened(ctx, claimEvent{after: event.after}))
	}
	claim := event.latest()
	if claim != nil {
		e.pl.state.refreshClaim(claim.Namespace + "/" + claim.Name)
		e.pl.devices.Changed.Tell(claim.UID)
	}
	if claim != nil && event.before == nil && event.after != nil {
		e.made.note(claim)
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

// wakeUsers wakes the pods that use the claim. Those that have never been tried are
// handed to the scheduling queue: if they wait for other claims as well, it keeps them.
func (e *claimEvents) wakeUsers(ctx context.Context, claim *resourceapi.ResourceClaim, atOnce bool) error {
	wake := e.pl.waker.wake
	if atOnce {
		wake = e.pl.waker.wakeAtOnce
	}
	pods, err := e.pl.podsUsing(claim.Namespace, claim.Name)
	if err != nil {
		return err
	}
	untried := make(map[string]*v1.Pod)
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			continue
		}
		if entry := e.pl.waiting.get(pod.UID); entry != nil {
			wake(entry)
		} else {
			untried[pod.Namespace+"/"+pod.Name] = pod
		}
	}
	if len(untried) > 0 {
		e.pl.handle.Activate(klog.FromContext(ctx), untried)
	}
	return nil
}

// wakeOwner wakes the pod that waits for the end of a claim that an earlier attempt made
// for its extended resources. The claim of a failed attempt ends as well, and that pod has
// to wait as long as after other failures.
func (e *claimEvents) wakeOwner(claim *resourceapi.ResourceClaim) {
	owner := extendedresource.OwnerOf(claim)
	if owner == "" {
		return
	}
	if entry := e.pl.waiting.get(owner); entry != nil && entry.wantedExtended().leftOver {
		e.pl.waker.wakeAtOnce(entry)
	}
}

// matters reports whether pods that use the claim may be helped. Metadata does not
// matter but for who owns the claim, nor does the end of the claim: they wait for a new one then. Nor do consumers
// that come, nor those that go as long as there is room for more and others stay: pods
// that give way, each of which reserves the claim in vain, would keep each other busy.
func (e *claimEvents) matters(event claimEvent) bool {
	if event.before == nil || event.after == nil {
		return event.after != nil
	}
	before, after := event.before.Status, event.after.Status
	before.ReservedFor, after.ReservedFor = nil, nil
	if !apiversions.SameAlphaClaim(event.before, event.after) ||
		!apiequality.Semantic.DeepEqual(&before, &after) ||
		!apiequality.Semantic.DeepEqual(&event.before.Spec, &event.after.Spec) ||
		!apiequality.Semantic.DeepEqual(event.before.OwnerReferences, event.after.OwnerReferences) {
		return true
	}
	// Who else uses the claim is asked last: a group may have a thousand pods, each of
	// which writes to the claim without a change of its consumers.
	consumers := event.before.Status.ReservedFor
	return !slices.Equal(consumers, event.after.Status.ReservedFor) &&
		(len(consumers) >= e.pl.consumerLimit(event.before) || !e.pl.inUse(event.after))
}

// changesAllocation reports whether the claim is new, or was allocated or deallocated.
// That is what pods wait for that share a claim; other changes, such as new consumers,
// are many.
func (e claimEvent) changesAllocation() bool {
	return e.before == nil || e.after == nil ||
		(e.before.Status.Allocation == nil) != (e.after.Status.Allocation == nil)
}

// claimEvent is a change of a claim: created if before is nil, deleted if after is.
type claimEvent struct {
	before, after *resourceapi.ResourceClaim
}

func newClaimEvent(oldObj, newObj any) claimEvent {
	before, after := versionsOf[resourceapi.ResourceClaim](oldObj, newObj)
	return claimEvent{before: before, after: after}
}

// replaces reports whether a claim was deleted and another one of that name created. Who
// lists anew after a lost connection sees that as one change. Whoever waits for the new
// claim must not be told of a change in metadata.
func (e claimEvent) replaces() bool {
	return e.before != nil && e.after != nil && e.before.UID != e.after.UID
}

// latest is the newer of the two states.
func (e claimEvent) latest() *resourceapi.ResourceClaim {
	if e.after != nil {
		return e.after
	}
	return e.before
}
