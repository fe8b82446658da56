package commitrunner

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

const (
	// deniedWithin limits the wait for the watch to show the claim that made a guard deny devices. It
	// may never come: an allocation that the guard approved earlier may never be stored.
	deniedWithin = time.Second
	// deniedInterval is the interval between two looks for it.
	deniedInterval = 5 * time.Millisecond
)

// activations are the pauses before each attempt to activate a pod. The scheduler puts the pod into its
// queue a moment after Unreserve, and does not report when. An activation that comes too early has no
// effect, nor has one that comes while the pod is being tried again.
var activations = []time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 80 * time.Millisecond, 320 * time.Millisecond}

// denial is a plan that a guard has denied to a claim, because another claim holds some of its devices.
type denial struct {
	claim types.UID
	plan  *resourceapi.AllocationResult
}

// afterDenial activates the pod, without the back-off that follows errors, as soon as this process knows
// another claim that holds a denied device: then the next attempt chooses another device. It returns at once.
func (a *Attempt) afterDenial(ctx context.Context) {
	denied := a.denied
	a.denied = nil
	go func() {
		// Outlives the cycle, whose context ends now.
		ctx := context.WithoutCancel(ctx)
		if wait.PollUntilContextTimeout(ctx, deniedInterval, deniedWithin, true, func(context.Context) (bool, error) {
			return a.isTaken(denied), a.Stopping.Err()
		}) != nil {
			return
		}
		a.activate(ctx)
	}()
}

// afterConflict activates the pod, without the back-off that follows errors: it has yielded to a claim
// that this process knows, so the next attempt chooses another device. It returns at once.
func (a *Attempt) afterConflict(ctx context.Context) {
	a.conflict = false
	go a.activate(context.WithoutCancel(ctx))
}

// activate activates the pod once it is back in the queue.
func (a *Attempt) activate(ctx context.Context) {
	for _, pause := range activations {
		timer := time.NewTimer(pause)
		select {
		case <-a.Stopping.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if a.IsReleasing(a.pod.UID) {
			return // It is activated when the release is done.
		}
		a.Activate(klog.FromContext(ctx), map[string]*v1.Pod{a.pod.Namespace + "/" + a.pod.Name: a.pod})
	}
}

// isTaken reports whether another claim is known to hold a device of the denied plan.
func (r *Runner) isTaken(denied *denial) bool {
	for result := range ledger.Used(denied.plan) {
		for _, holder := range r.State.Ledger.Pool(ledger.PoolOf(result)).Device(result.Device).Holders {
			if holder.UID != denied.claim {
				return true
			}
		}
	}
	return false
}
