package commit

import (
	"context"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

const (
	// deniedWithin limits the wait for the watch to show the claim that made a guard deny devices. It
	// may never come: an allocation that the guard approved earlier may never be stored.
	deniedWithin = time.Second
	// deniedInterval is the interval between two looks for it.
	deniedInterval = 5 * time.Millisecond
)

// denial is a plan that a guard has denied to a claim, because another claim holds some of its devices.
type denial struct {
	claim types.UID
	plan  *resourceapi.AllocationResult
}

// afterDenial retries the pod as soon as this process knows another claim that holds a denied device: then the next attempt
// chooses another device. It returns at once.
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
		a.again()
	}()
}

// afterConflict retries the pod: it has yielded to a claim that this process knows, so the next attempt chooses another
// device.
func (a *Attempt) afterConflict() {
	a.conflict = false
	a.again()
}

// again retries the pod once it is back in the queue.
func (a *Attempt) again() {
	if !a.IsReleasing(a.pod.UID) { // Otherwise the end of the release retries it.
		a.Profile.TryAgain(a.pod.UID)
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
