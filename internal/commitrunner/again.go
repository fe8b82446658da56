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
	// deniedWithin is how long the watch may take to show what a guard has denied devices for. Nothing
	// need come: what the guard had approved before may never be stored.
	deniedWithin = time.Second
	// deniedInterval is how often to look for it.
	deniedInterval = 5 * time.Millisecond
)

// activations are the pauses before a pod is asked to be tried again. The scheduler puts it into its
// queue a moment after Unreserve, and does not tell when; what comes too early has no effect, and
// neither has what comes when the pod is being tried again.
var activations = []time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 80 * time.Millisecond, 320 * time.Millisecond}

// denial is a plan that a guard has denied to a claim, because another one has some of it.
type denial struct {
	claim types.UID
	plan  *resourceapi.AllocationResult
}

// afterDenial has the pod tried again, without the pause that follows errors, as soon as it is
// known here who has a device that a guard has denied it: with that known, another one is chosen.
// It returns at once.
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

// afterConflict has the pod tried again, without the pause that follows errors: it has yielded to
// a claim that is known here, so another device is chosen. It returns at once.
func (a *Attempt) afterConflict(ctx context.Context) {
	a.conflict = false
	go a.activate(context.WithoutCancel(ctx))
}

// activate has the pod tried again once it is back in the queue.
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

// isTaken reports whether another claim is known to hold a device of what was denied.
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
