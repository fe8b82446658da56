package ledger

import (
	"sync"
	"sync/atomic"
	"unique"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Ledger is the single record of the claims that hold devices. It is a View of the present.
//
// Claims reach it in two ways: as the API server has them (Refresh, Observe), and as this scheduler
// intends them (AddInFlight). A claim counts once: as committed if the server is known to have its
// allocation, otherwise as in flight; two different allocations of a claim both count. Methods that change the ledger return the devices that became
// free.
type Ledger struct {
	mutex  sync.Mutex
	claims map[types.UID]*record
	byName map[string]types.UID // namespace/name to UID of the committed claim
	// consumers maps a consumer to the claims that it uses: those reserved for it, and those whose
	// in-flight allocation it relies on.
	consumers map[types.UID][]types.UID

	pools sync.Map // inventory.PoolKey to *PoolUsage
	// changes holds the counters of ConsumerChanges for pools in use.
	changes sync.Map // inventory.PoolKey to *atomic.Uint64

	// Clock tells the time since which allocations are in flight, never 0; nil if nobody asks. It must be set before use.
	Clock func() int64
	// Pools looks up the pools by which AddInFlight judges counters and capacities; nil skips that
	// check. It is called under a lock and must not call back. It must be set before use.
	Pools Pools
	// followed is the store given to Follow.
	followed *inventory.Store
	// Running finds the pods that run with a deleted claim; nil if they are unknown. It must be set
	// before use.
	Running Running
	// Deallocated is told of claims that exist and have lost their allocation, at the first call that finds it: an event tells only if the watch had
	// shown the allocation. Nil if nobody asks. It must be set before use.
	Deallocated func(ClaimRef)
	// keeping counts the claims kept for running pods, and keptFor lists them by pod.
	keeping atomic.Int64
	keptFor map[types.UID][]types.UID

	// Changed records the pools whose usage changed.
	Changed inventory.Changes[inventory.PoolID]
}

// record is the state of one claim.
type record struct {
	ref ClaimRef
	// version is the resourceVersion of the newest server state seen, "" if there was none.
	version   string
	committed *resourceapi.AllocationResult
	// reservedFor is status.reservedFor of that server state.
	reservedFor []resourceapi.ResourceClaimConsumerReference
	// inFlight is not nil exactly while users is not empty.
	inFlight *resourceapi.AllocationResult
	// since is when it was put in flight, for the first of its users, by Clock.
	since int64
	// users lists the pods whose attempts rely on inFlight, each once.
	users []types.UID
	both  both
	// kept is the allocation that the claim had when it was deleted while runners ran with it, nil
	// otherwise.
	kept    *resourceapi.AllocationResult
	runners []Runner
	// gone is set if the claim was deleted while it had an allocation in flight, or is kept.
	gone bool
}

// effective returns the allocation that counts. If another scheduler has allocated the claim while an allocation is in flight, both
// count: should the claim be deallocated before the attempt ends, its allocation may be written after all.
func (r *record) effective() *resourceapi.AllocationResult {
	switch {
	case r.committed != nil && r.inFlight != nil && r.committed != r.inFlight && !sameUse(r.committed, r.inFlight):
		return r.bothAllocations()
	case r.committed != nil:
		return r.committed
	case r.kept != nil:
		return r.kept
	}
	return r.inFlight
}

// both is the union of two allocations of a claim.
type both struct{ committed, inFlight, union *resourceapi.AllocationResult }

// bothAllocations returns the committed allocation with the devices in flight that it does not have. The result is the same as long as
// the two are.
func (r *record) bothAllocations() *resourceapi.AllocationResult {
	if r.both.committed == r.committed && r.both.inFlight == r.inFlight {
		return r.both.union
	}
	union, has := r.committed.DeepCopy(), make(map[resultKey]bool)
	for result := range Used(r.committed) {
		has[keyOf(result)] = true
	}
	for result := range Used(r.inFlight) {
		if !has[keyOf(result)] {
			union.Devices.Results = append(union.Devices.Results, *result.DeepCopy())
		}
	}
	r.both = both{r.committed, r.inFlight, union}
	return union
}

// ClaimState is the known server state of a claim. The zero value stands for an unknown claim.
type ClaimState struct {
	Ref ClaimRef
	// Version is the resourceVersion of the newest state seen.
	Version string
	// Committed is the allocation in that state, nil if none.
	Committed *resourceapi.AllocationResult
	// Gone is set if the claim was deleted but is kept or still has an allocation in flight.
	Gone bool
}

// State returns the known server state of a claim.
func (l *Ledger) State(uid types.UID) ClaimState {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.state(uid)
}

// state implements State. The caller must hold the mutex.
func (l *Ledger) state(uid types.UID) ClaimState {
	r := l.claims[uid]
	if r == nil {
		return ClaimState{}
	}
	return ClaimState{Ref: r.ref, Version: r.version, Committed: r.committed, Gone: r.gone}
}

// New returns an empty ledger.
func New() *Ledger {
	return &Ledger{
		claims:    make(map[types.UID]*record),
		byName:    make(map[string]types.UID),
		consumers: make(map[types.UID][]types.UID),
		keptFor:   make(map[types.UID][]types.UID),
	}
}

// Pool implements View.
func (l *Ledger) Pool(id inventory.PoolID) *PoolUsage { return l.OfKey(unique.Make(id)) }

// OfKey is Pool for callers that have the key.
func (l *Ledger) OfKey(key inventory.PoolKey) *PoolUsage {
	usage, found := l.pools.Load(key)
	if !found {
		return unused
	}
	return usage.(*PoolUsage)
}

// Refresh brings one claim up to date. read returns the object in the informer's store under
// namespace/name, or nil. It is called under the lock, so that calls may come late, repeatedly and
// from several goroutines.
func (l *Ledger) Refresh(key string, read func() *resourceapi.ResourceClaim) Freed {
	return l.tell(func() (Freed, *ClaimRef) {
		if claim := read(); claim != nil {
			return l.apply(key, claim)
		}
		freed := l.forget(l.byName[key])
		delete(l.byName, key)
		return freed, nil
	})
}

// Observe records a claim as the server returned it from a write of this scheduler, which can be
// newer than the informer's copy.
//
// It does nothing for a claim that the ledger does not know: that claim was deleted since. No event
// would report its end again, so its devices would stay in use for ever.
func (l *Ledger) Observe(claim *resourceapi.ResourceClaim) Freed {
	return l.tell(func() (Freed, *ClaimRef) {
		if r := l.claims[claim.UID]; r != nil && !r.gone {
			return l.apply(claim.Namespace+"/"+claim.Name, claim)
		}
		return nil, nil
	})
}

// tell makes a change under the mutex, and then tells of a claim that has lost its allocation.
func (l *Ledger) tell(change func() (Freed, *ClaimRef)) Freed {
	l.mutex.Lock()
	freed, deallocated := change()
	l.mutex.Unlock()
	if deallocated != nil && l.Deallocated != nil {
		l.Deallocated(*deallocated)
	}
	return freed
}

// Gone records that the server no longer has a claim with that UID. Its in-flight allocation stays.
func (l *Ledger) Gone(uid types.UID) Freed {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.forget(uid)
}

// apply takes over the state of a claim, unless a newer state is known. It returns the claim as deallocated if it has lost its allocation.
func (l *Ledger) apply(key string, claim *resourceapi.ResourceClaim) (freed Freed, deallocated *ClaimRef) {
	if uid, found := l.byName[key]; found && !newer(claim, l.claims[uid]) {
		return nil, nil
	} else if found && uid != claim.UID {
		freed = l.forget(uid)
	}
	l.byName[key] = claim.UID
	r := l.record(RefTo(claim))
	before := r.effective()
	l.letGo(r)
	r.version, r.gone = claim.ResourceVersion, false
	if r.committed != nil && claim.Status.Allocation == nil {
		deallocated = new(r.ref)
	}
	if !sameUse(r.committed, claim.Status.Allocation) {
		r.committed = claim.Status.Allocation
	}
	l.reserve(r, claim.Status.ReservedFor, before)
	return freed.And(l.publish(r.ref, before, r.effective())), deallocated
}

// newer reports whether the claim's state is newer than the recorded one. Versions
// that cannot be compared count as newer: the last writer then wins.
func newer(claim *resourceapi.ResourceClaim, r *record) bool {
	return r == nil || !informer.AtLeast(r.version, claim.ResourceVersion)
}

// forget removes the committed allocation of a deleted claim, unless it is kept. The entry stays
// while an allocation is in flight: the user of that allocation ends it.
func (l *Ledger) forget(uid types.UID) Freed {
	r := l.claims[uid]
	if r == nil {
		return nil
	}
	before := r.effective()
	freed := l.keep(r)
	r.committed, r.version, r.gone = nil, "", true
	if r.kept == nil {
		l.reserve(r, nil, before)
	}
	if r.inFlight == nil && r.kept == nil {
		delete(l.claims, uid)
	}
	return freed.And(l.publish(r.ref, before, r.effective()))
}

func (l *Ledger) record(ref ClaimRef) *record {
	r := l.claims[ref.UID]
	if r == nil {
		r = &record{ref: ref}
		l.claims[ref.UID] = r
	}
	return r
}

// publish replaces the usage of all pools in which the two allocations differ. It returns the
// devices that the claim no longer uses.
func (l *Ledger) publish(holder ClaimRef, before, after *resourceapi.AllocationResult) Freed {
	if before == after {
		return nil
	}
	for _, id := range poolsOf(before, after) {
		usage := l.Pool(id).change(id, holder, before, after)
		if usage.Len() == 0 {
			l.pools.Delete(unique.Make(id))
			l.changes.Delete(unique.Make(id))
			l.Changed.Add(id)
		} else {
			l.store(id, usage)
		}
	}
	return l.freed(before, after)
}

// store replaces the usage of a pool with devices in use. The caller must hold the mutex.
func (l *Ledger) store(id inventory.PoolID, usage *PoolUsage) {
	usage.follows = l.followed != nil
	l.pools.Store(unique.Make(id), usage)
	l.Changed.Add(id)
}
