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

// afterDenial has the pod tried again, without the pause that follows errors, as soon as it is
// known here who has a device that a guard has denied it: with that known, another one is chosen.
// It returns at once.
func (r *run) afterDenial(ctx context.Context, claim *Claim) {
	pod, uid, plan := r.pod, claim.Object.UID, claim.Plan()
	go func() {
		// Outlives the cycle, whose context ends soon.
		ctx := context.WithoutCancel(ctx)
		err := wait.PollUntilContextTimeout(ctx, deniedInterval, deniedWithin, true, func(context.Context) (bool, error) {
			return r.isTaken(uid, plan), r.Stopping.Err()
		})
		if err == nil {
			r.Activate(klog.FromContext(ctx), map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
		}
	}()
}

// isTaken reports whether another claim is known to use a device of a plan.
func (r *run) isTaken(by types.UID, plan *resourceapi.AllocationResult) bool {
	for result := range ledger.Used(plan) {
		usage := r.State.Ledger.Pool(ledger.PoolOf(result)).Device(result.Device)
		for _, holder := range usage.Holders {
			if holder.UID != by {
				return true
			}
		}
	}
	return false
}
