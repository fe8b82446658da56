package commitrunner

import (
	"context"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

const (
	// deniedWithin is how long the watch may take to show what a guard has denied devices for. Nothing
	// need come: what the guard had approved before may never be stored.
	deniedWithin = time.Second
	// deniedInterval is how often to look for it.
	deniedInterval = 5 * time.Millisecond
)

// denial is a plan that a guard has denied to a claim, because another one has some of it.
type denial struct {
	claim types.UID
	plan  *resourceapi.AllocationResult
}

// afterDenial has the pod tried again as soon as it is known here who has a device that a guard has
// denied it: with that known, another one is chosen. It returns at once.
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

// afterConflict has the pod tried again: it has yielded to a claim that is known here, so another
// device is chosen.
func (a *Attempt) afterConflict() {
	a.conflict = false
	a.again()
}

// again has the pod tried again once it is back in the queue.
func (a *Attempt) again() {
	if !a.IsReleasing(a.pod.UID) { // Else it is tried when the release is done.
		a.TryAgain(a.pod.UID)
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
