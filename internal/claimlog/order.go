package claimlog

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

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Order follows the allocations of all ResourceClaims in the order of their writes. All
// methods are safe for concurrent use.
type Order struct {
	client kubernetes.Interface
	pools  ledger.Pools
	clock  clock.PassiveClock

	progress progress

	mutex sync.RWMutex
	index index
	// allocations is how many there were.
	allocations uint64
	// last has the last complete state of pools that are not complete.
	last map[inventory.PoolKey]lastState
	// changed are the pools that TakeChanged has not returned since they changed.
	changed map[inventory.PoolKey]struct{}
	// lastForeign is when an allocation of somebody else last arrived or was announced.
	lastForeign time.Time
	// lastForeignIn is when somebody else was last allocated something of a pool, by the namespace of the
	// claim.
	lastForeignIn map[inventory.PoolKey]map[string]time.Time
	backlog       backlogs
	onConflict    func(Conflict)
}

// New returns an Order that knows nothing until Run has been called. It needs the rights
// to list and watch ResourceClaims in all namespaces. pools is called under a lock, and
// must not call back.
func New(client kubernetes.Interface, pools ledger.Pools, clock clock.PassiveClock) *Order {
	return &Order{client: client, pools: pools, clock: clock, index: newIndex(), backlog: newBacklogs(),
		last: make(map[inventory.PoolKey]lastState), changed: make(map[inventory.PoolKey]struct{}),
		lastForeignIn: make(map[inventory.PoolKey]map[string]time.Time)}
}

// OnConflict sets the function that is called for each two claims that have the same device
// from now on, also for those which the first list shows, unless both have a share of it. It is
// called once for an allocation, another claim and a device, with the one that arrived
// last as Claim. It runs in the goroutine of the watch, without a lock, and should be quick.
// For everything else that claims can have too much of see Overdrawn.
func (o *Order) OnConflict(report func(Conflict)) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.onConflict = report
}

// Await returns nil when every write of claims up to the given resourceVersion is known.
// After a write that is known to have succeeded this is sure to happen as long as the
// server can be reached, whatever becomes of the claim afterwards. The error is that of
// the context, or says that the version is not a number.
func (o *Order) Await(ctx context.Context, resourceVersion string) error {
	version, err := parseVersion(resourceVersion)
	if err != nil {
		return fmt.Errorf("asked to wait for resourceVersion %q, which cannot be compared with others; it has to be what the API server returned: %w", resourceVersion, err)
	}
	return o.progress.wait(ctx, version)
}

// Allocated reports whether the claim is known to have an allocation. After Await for a
// state in which it had one, no means that somebody has removed it since.
func (o *Order) Allocated(claim types.UID) bool {
	o.mutex.RLock()
	defer o.mutex.RUnlock()
	return o.index.claims[claim] != nil
}

// Conflicts returns all conflicts of the claim, also those in which the other claim has to
// yield. Those in which it is this claim come first, and of these the earliest: the
// other claim was allocated before, or it is not known who was first. A claim of which no
// allocation is known has no conflicts.
//
// The answer is complete if Await has returned for the resourceVersion of a state of the
// claim with that allocation, and Undecided has returned nil since.
func (o *Order) Conflicts(claim types.UID) []Conflict {
	o.mutex.RLock()
	defer o.mutex.RUnlock()
	return o.conflicts(claim)
}

// CheckPlan returns why an allocation that has not been written would have to yield,
// nil if it would not as far as is known. The claim has that allocation in its status.
// What the watch has not delivered yet does not count.
func (o *Order) CheckPlan(claim *resourceapi.ResourceClaim) *Conflict {
	plan := newAllocation(claim, math.MaxUint64, exactly(math.MaxUint64))
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if plan == nil || o.index.claims[claim.UID] != nil {
		return nil // It is not a plan any more: the claim has been allocated.
	}
	o.index.add(plan)
	defer o.index.remove(claim.UID)
	if conflicts := o.conflicts(claim.UID); len(conflicts) > 0 && conflicts[0].Lost {
		return &conflicts[0]
	}
	return nil
}

// AllocatedBy reports whether an instance of ours has allocated the claim. known is false
// if the claim is not known to be allocated.
func (o *Order) AllocatedBy(claim types.UID) (ours, known bool) {
	o.mutex.RLock()
	defer o.mutex.RUnlock()
	a := o.index.claims[claim]
	return a != nil && !a.foreign, a != nil
}

// AllocatedFor reports which scheduler has written the allocation of a claim: that of a pod for
// which the claim was reserved in the same write, which nobody can do without the right to update the
// status of claims. ours says whether it was an instance of ours. known is false if that write was not
// seen, reserved the claim for nobody or for others, or if the server has not recorded who made it.
func (o *Order) AllocatedFor(claim types.UID) (pod types.UID, ours, known bool) {
	o.mutex.RLock()
	defer o.mutex.RUnlock()
	a := o.index.claims[claim]
	if a == nil || a.pod == "" || !a.recorded {
		return "", false, false
	}
	return a.pod, !a.foreign, true
}

// LastForeign returns when an allocation of a claim of a namespace that no instance of ours wrote
// last arrived, or was announced. Of allocations that existed at the start, the time counts that the
// API server has recorded.
func (o *Order) LastForeign(namespace string) time.Time {
	o.mutex.RLock()
	defer o.mutex.RUnlock()
	if in := o.backlog.of[namespace]; in != nil {
		return in.heard
	}
	return time.Time{}
}

// ForeignWithin reports whether LastForeign of any namespace is within the last d.
func (o *Order) ForeignWithin(d time.Duration) bool {
	o.mutex.RLock()
	defer o.mutex.RUnlock()
	return !o.lastForeign.IsZero() && o.clock.Since(o.lastForeign) <= d
}

// ForeignIn returns when somebody else was last allocated a device of a pool, for a claim of the
// namespace and for one of any other.
func (o *Order) ForeignIn(pool inventory.PoolID, namespace string) (there, elsewhere time.Time) {
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
