package allocationlog

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"
	"unique"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Log follows the allocations of all ResourceClaims in the order of their writes. All
// methods are safe for concurrent use.
type Log struct {
	client kubernetes.Interface
	pools  ledger.Pools
	clock  clock.PassiveClock

	progress progress
	liveness informer.Liveness

	mutex sync.RWMutex
	index index
	// allocations counts all allocations so far.
	allocations uint64
	// last holds the last complete state of pools that are now incomplete.
	last map[inventory.PoolKey]lastState
	// changed holds the pools that changed since TakeChanged last returned them.
	changed map[inventory.PoolKey]struct{}
	// lastForeign is the time when an allocation by another scheduler last arrived or was
	// announced.
	lastForeign time.Time
	// lastForeignIn is the time when another scheduler last allocated something of a pool, by the
	// namespace of the claim.
	lastForeignIn map[inventory.PoolKey]map[string]time.Time
	backlog       backlogs
	onConflict    func(Conflict)
}

// New returns an Log, which is empty until Run is called. It needs permission to list and watch
// ResourceClaims in all namespaces. pools is called under a lock and must not call back.
func New(client kubernetes.Interface, pools ledger.Pools, clock clock.PassiveClock) *Log {
	return &Log{client: client, pools: pools, clock: clock, index: newIndex(), backlog: newBacklogs(),
		last: make(map[inventory.PoolKey]lastState), changed: make(map[inventory.PoolKey]struct{}),
		lastForeignIn: make(map[inventory.PoolKey]map[string]time.Time)}
}

// OnConflict sets the function that is called when two claims have the same device, unless both
// have a share of it. This includes claims in the first list. It is called once for each
// combination of allocation, other claim and device, with the claim that arrived last as Claim. It
// runs in the goroutine of the watch, without a lock, and should be quick. Overdrawn reports all
// other resources that claims can have too much of.
func (o *Log) OnConflict(report func(Conflict)) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.onConflict = report
}

// Await returns nil once all writes of claims up to the given resourceVersion are known. After a
// successful write, that happens as long as the server can be reached, even if the claim changes
// again. The error is that of the context, or says that the version is not a number.
func (o *Log) Await(ctx context.Context, resourceVersion string) error {
	version, err := parseVersion(resourceVersion)
	if err != nil {
		return fmt.Errorf("asked to wait for resourceVersion %q, which cannot be compared with others; use one that the API server returned: %w", resourceVersion, err)
	}
	return o.progress.wait(ctx, version)
}

// Interrupted reports whether the watch of claims is closed at the moment, and when it was last opened again; zero if
// it was never closed. Meanwhile others may allocate without being noticed.
func (o *Log) Interrupted() (now bool, until time.Time) { return o.liveness.Interrupted() }

// Allocated reports whether the claim is known to have an allocation. If Await has returned for a
// state with an allocation, false means that the allocation was removed since.
func (o *Log) Allocated(claim types.UID) bool {
	o.mutex.RLock()
	defer o.mutex.RUnlock()
	return o.index.claims[claim] != nil
}

// Conflicts returns all conflicts of the claim, including those in which the other claim must
// yield. Conflicts in which this claim must yield come first, because the other claim was allocated
// earlier or the order is unknown; among these, the earliest come first. A claim without a known
// allocation has no conflicts.
//
// The answer is complete if Await has returned for the resourceVersion of a state of the claim with
// that allocation, and Undecided has returned nil since.
func (o *Log) Conflicts(claim types.UID) []Conflict {
	o.mutex.RLock()
	defer o.mutex.RUnlock()
	return o.conflicts(claim)
}

// CheckPlan returns the conflict that would make an unwritten allocation yield, nil if none is
// known. The claim has that allocation in its status. Writes that the watch has not delivered yet
// do not count.
func (o *Log) CheckPlan(claim *resourceapi.ResourceClaim) *Conflict {
	plan := newAllocation(claim, math.MaxUint64, exactly(math.MaxUint64))
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if plan == nil || o.index.claims[claim.UID] != nil {
		return nil // The claim has been allocated, so this is no longer a plan.
	}
	o.index.add(plan)
	defer o.index.remove(claim.UID)
	if conflicts := o.conflicts(claim.UID); len(conflicts) > 0 && conflicts[0].Lost {
		return &conflicts[0]
	}
	return nil
}

// AllocatedBy reports whether an instance of this scheduler allocated the claim. known is false if
// the claim is not known to be allocated.
func (o *Log) AllocatedBy(claim types.UID) (ours, known bool) {
	o.mutex.RLock()
	defer o.mutex.RUnlock()
	a := o.index.claims[claim]
	return a != nil && !a.foreign, a != nil
}

// AllocatedFor reports which scheduler wrote the allocation of a claim. pod is the pod that the
// same write reserved the claim for; only clients that may update the status of claims can do that.
// ours says whether an instance of this scheduler wrote it. known is false if that write was not
// seen, if it reserved the claim for no consumer or for other consumers, or if the server did not
// record its author.
func (o *Log) AllocatedFor(claim types.UID) (pod types.UID, ours, known bool) {
	o.mutex.RLock()
	defer o.mutex.RUnlock()
	a := o.index.claims[claim]
	if a == nil || a.pod == "" || !a.recorded {
		return "", false, false
	}
	return a.pod, !a.foreign, true
}

// LastForeign returns the time when an allocation of a claim of the namespace by another scheduler
// last arrived or was announced. For allocations that existed at the start, the time that the API
// server recorded counts.
func (o *Log) LastForeign(namespace string) time.Time {
	o.mutex.RLock()
	defer o.mutex.RUnlock()
	if in := o.backlog.of[namespace]; in != nil {
		return in.heard
	}
	return time.Time{}
}

// ForeignWithin reports whether LastForeign of any namespace is at most d ago.
func (o *Log) ForeignWithin(d time.Duration) bool {
	o.mutex.RLock()
	defer o.mutex.RUnlock()
	return !o.lastForeign.IsZero() && o.clock.Since(o.lastForeign) <= d
}

// ForeignIn returns when another scheduler last allocated a device of a pool, for a claim of the
// namespace and for a claim of any other namespace.
func (o *Log) ForeignIn(pool inventory.PoolID, namespace string) (there, elsewhere time.Time) {
	o.mutex.RLock()
	defer o.mutex.RUnlock()
	for in, last := range o.lastForeignIn[unique.Make(pool)] {
		switch {
		case in == namespace:
			there = last
		case last.After(elsewhere):
			elsewhere = last
		}
	}
	return there, elsewhere
}
