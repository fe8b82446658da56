package conflicts

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	k8smetrics "k8s.io/component-base/metrics"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/allocationlog"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Grace is the time that a conflict must last before it is reported, in addition to the time for settling. Schedulers
// that take part in the protocol undo the conflicts that they find before they bind within that time.
const Grace = 5 * time.Second

// A Reporter reports conflicts for all profiles of a scheduler.
type Reporter struct {
	// Order finds the conflicts.
	Order *allocationlog.Log
	// Objects returns the cluster's claims and pods.
	Objects Objects
	// Leadership says whether this process is the one that reports.
	Leadership lease.Leadership
	// Profiles are the profiles of the scheduler.
	Profiles Profiles
	// Client is for evictions.
	Client kubernetes.Interface
	// Recorder is for events.
	Recorder events.EventRecorder
}

// Objects reads claims and pods, from memory only.
type Objects interface {
	// Claim returns the latest known state of a claim, nil if there is none of that name.
	Claim(namespace, name string) *resourceapi.ResourceClaim
	// Consumers returns the pods for which a claim is reserved, except unknown ones.
	Consumers(claim *resourceapi.ResourceClaim) []*v1.Pod
}

// Profiles are the profiles of a scheduler.
type Profiles interface {
	// Settling returns the time for which new conflicts may still be settled. It grows while other schedulers are late
	// with their writes.
	Settling() time.Duration
	// EvictsOnConflict reports whether pods are evicted.
	EvictsOnConflict() bool
}

// Start starts to report in the background, until the context ends. It must be called before Order.Run, which finds the
// conflicts.
func (r *Reporter) Start(ctx context.Context) {
	pairs := newPairs(r)
	r.Order.OnConflict(func(c allocationlog.Conflict) { pairs.found(pairOf(c)) })
	context.AfterFunc(ctx, pairs.queue.ShutDown)
	go pairs.run(ctx)
	go newOverdrafts(r).run(ctx)
}

// grace returns Grace plus the time for settling.
func (r *Reporter) grace() time.Duration { return Grace + r.Profiles.Settling() }

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

const metricsSubsystem = "quartermaster"

// Conflicts and Evictions count the reported conflicts and the evictions, by pool. The caller must register them.
var (
	Conflicts = k8smetrics.NewCounterVec(&k8smetrics.CounterOpts{
		Subsystem: metricsSubsystem, Name: "device_conflicts_total", StabilityLevel: k8smetrics.ALPHA,
		Help: "Conflicts between claims that no scheduler resolved: pairs of claims with the same device, and claims for which others have left too little of a counter or capacity, or no compatibility group.",
	}, []string{"driver", "pool"})
	Evictions = k8smetrics.NewCounterVec(&k8smetrics.CounterOpts{
		Subsystem: metricsSubsystem, Name: "conflict_evictions_total", StabilityLevel: k8smetrics.ALPHA,
		Help: "Pods that were evicted because their claim is in conflict with one that was allocated first (onConflict: Evict).",
	}, []string{"driver", "pool"})
)

func count(counter *k8smetrics.CounterVec, pool inventory.PoolID) {
	counter.WithLabelValues(pool.Driver, pool.Name).Inc()
}
