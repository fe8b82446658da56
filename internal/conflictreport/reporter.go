package conflictreport

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"

	"github.com/quartermaster-dra/quartermaster/internal/claimlog"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Grace is how long claims may hold the same before that is reported, not counting the time for
// which they settle. What instances of ours find out before they bind is undone within that time.
const Grace = 5 * time.Second

// Reporter reports for all profiles of a scheduler.
type Reporter struct {
	// Order finds the conflicts.
	Order *claimlog.Order
	// Objects are those of the cluster.
	Objects Objects
	// Leads returns nil if this process is the one that reports.
	Leads func() error
	// Settling is for how long conflicts that have arisen just now may go on to be settled. It
	// grows while other schedulers get behind with their writes.
	Settling func() time.Duration
	// Evicts reports whether pods are evicted.
	Evicts func() bool
	// Client is for evictions.
	Client kubernetes.Interface
	// Recorder is for events.
	Recorder events.EventRecorder
}

// Objects is what is known of claims and pods. All of it is in memory.
type Objects interface {
	// Claim returns the latest known state of a claim, nil if there is none of that name.
	Claim(namespace, name string) *resourceapi.ResourceClaim
	// Consumers returns the pods for which a claim is reserved, as far as they are known.
	Consumers(claim *resourceapi.ResourceClaim) []*v1.Pod
}

// Start begins to report in the background, until the context ends. It has to be called before
// Order.Run, which finds what there is to report.
func (r *Reporter) Start(ctx context.Context) {
	pairs := newPairs(r)
	r.Order.OnConflict(func(c claimlog.Conflict) { pairs.found(pairOf(c)) })
	go func() {
		<-ctx.Done()
		pairs.queue.ShutDown()
	}()
	go pairs.run(ctx)
	go newOverdrafts(r).run(ctx)
}

// grace is Grace after claims have settled.
func (r *Reporter) grace() time.Duration { return Grace + r.Settling() }

// conflictReason is the reason of the events.
const conflictReason = "DeviceConflict"

// tell writes events for a claim, and for the pods that use it.
func (r *Reporter) tell(ref ledger.ClaimRef, message string) {
	claim := r.claim(ref)
	if claim == nil {
		return
	}
	r.Recorder.Eventf(claim, nil, v1.EventTypeWarning, conflictReason, "Allocating", "%s", message)
	for _, pod := range r.Objects.Consumers(claim) {
		r.Recorder.Eventf(pod, claim, v1.EventTypeWarning, conflictReason, "Allocating", "%s", message)
	}
}

// claim returns the latest known state of a claim, nil if it is gone.
func (r *Reporter) claim(ref ledger.ClaimRef) *resourceapi.ResourceClaim {
	claim := r.Objects.Claim(ref.Namespace, ref.Name)
	if claim == nil || claim.UID != ref.UID {
		return nil
	}
	return claim
}
