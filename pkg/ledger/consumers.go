package ledger

import (
	"slices"
	"sync/atomic"
	"unique"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Use describes a claim with an allocation, and the consumers that need it.
type Use struct {
	Claim      ClaimRef
	Allocation *resourceapi.AllocationResult
	// ReservedFor is status.reservedFor of the newest server state seen, nil if the allocation is
	// only in flight. InFlight lists the pods whose attempts rely on the allocation.
	ReservedFor []resourceapi.ResourceClaimConsumerReference
	InFlight    []types.UID
}

// UseOf returns the allocation of a claim and its consumers, or the zero value if the claim has no
// allocation.
func (l *Ledger) UseOf(claim types.UID) Use {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.use(claim)
}

// use implements UseOf. The caller must hold the mutex.
func (l *Ledger) use(claim types.UID) Use {
	r := l.claims[claim]
	if r == nil || r.effective() == nil {
		return Use{}
	}
	return Use{Claim: r.ref, Allocation: r.effective(), ReservedFor: r.reservedFor, InFlight: slices.Clone(r.users)}
}

// UsesBy returns what the claims of a consumer, a pod or a PodGroup, hold.
func (l *Ledger) UsesBy(consumer types.UID) []Use {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var uses []Use
	for _, claim := range l.consumers[consumer] {
		if use := l.use(claim); use.Allocation != nil {
			uses = append(uses, use)
		}
	}
	return uses
}

// reserve records status.reservedFor of a claim; allocation is its effective allocation before the
// update. The caller must hold the mutex.
func (l *Ledger) reserve(r *record, consumers []resourceapi.ResourceClaimConsumerReference, allocation *resourceapi.AllocationResult) {
	before, after := differing(r.reservedFor, consumers)
	r.reservedFor = consumers
	for i := range after {
		l.uses(after[i].UID, r.ref.UID)
	}
	for i := range before {
		l.leaves(before[i].UID, r)
	}
	if len(before)+len(after) > 0 && r.effective() == allocation {
		l.countChange(allocation) // Otherwise the PoolUsage changes as well.
	}
}

// ConsumerChanges returns the counter of consumer changes of a pool in use. It counts how often the
// consumers of claims with devices of the pool changed. While the counter and the PoolUsage stay
// the same, the same consumers use the same devices. Callers must only read the counter.
func (l *Ledger) ConsumerChanges(pool inventory.PoolKey) *atomic.Uint64 {
	if count, found := l.changes.Load(pool); found {
		return count.(*atomic.Uint64)
	}
	count, _ := l.changes.LoadOrStore(pool, &atomic.Uint64{})
	return count.(*atomic.Uint64)
}

// ConsumerChanged increments ConsumerChanges for a change of a consumer that its claims do not
// show.
func (l *Ledger) ConsumerChanged(consumer types.UID) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, claim := range l.consumers[consumer] {
		if r := l.claims[claim]; r != nil {
			l.countChange(r.effective())
		}
	}
}

// countChange counts a change of the consumers of an allocation. The caller must hold the mutex.
func (l *Ledger) countChange(allocation *resourceapi.AllocationResult) {
	if allocation == nil {
		return
	}
	for _, id := range poolsOf(allocation) {
		l.ConsumerChanges(unique.Make(id)).Add(1)
	}
}

// differing returns the lists without their common start and end. An update adds or removes one of
// hundreds of consumers, so little remains.
func differing[T comparable](a, b []T) ([]T, []T) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}

// uses records that a consumer uses a claim. The caller must hold the mutex.
func (l *Ledger) uses(consumer, claim types.UID) {
	if claims := l.consumers[consumer]; !slices.Contains(claims, claim) {
		l.consumers[consumer] = append(claims, claim)
	}
}

// leaves records that a consumer no longer uses a claim, unless it still uses it in another way.
// The caller must hold the mutex.
func (l *Ledger) leaves(consumer types.UID, r *record) {
	if slices.Contains(r.users, consumer) ||
		slices.ContainsFunc(r.reservedFor, func(c resourceapi.ResourceClaimConsumerReference) bool { return c.UID == consumer }) {
		return
	}
	claims := slices.DeleteFunc(l.consumers[consumer], func(claim types.UID) bool { return claim == r.ref.UID })
	if len(claims) == 0 {
		delete(l.consumers, consumer)
	} else {
		l.consumers[consumer] = claims
	}
}
