package ledger

import (
	"slices"
	"sync/atomic"
	"unique"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Use is a claim with an allocation, and who needs that.
type Use struct {
	Claim      ClaimRef
	Allocation *resourceapi.AllocationResult
	// ReservedFor is status.reservedFor of the newest state seen of the server, nil if the allocation is
	// only in flight. InFlight are the pods whose attempts rely on it.
	ReservedFor []resourceapi.ResourceClaimConsumerReference
	InFlight    []types.UID
}

// UseOf returns the allocation of a claim and its consumers. It is the zero value if the claim has none.
func (l *Ledger) UseOf(claim types.UID) Use {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.use(claim)
}

// use is UseOf. It needs the mutex.
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

// reserve records status.reservedFor of a claim whose allocation was the one given before. It needs the mutex.
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

// ConsumerChanges counts, for a pool in use, how often the consumers changed of claims that hold devices of it. As long
// as that and the PoolUsage are the same, the same consumers use the same devices. It is only to be read.
func (l *Ledger) ConsumerChanges(pool inventory.PoolKey) *atomic.Uint64 {
	if count, found := l.changes.Load(pool); found {
		return count.(*atomic.Uint64)
	}
	count, _ := l.changes.LoadOrStore(pool, &atomic.Uint64{})
	return count.(*atomic.Uint64)
}

// ConsumerChanged has ConsumerChanges count something about a consumer that its claims do not show.
func (l *Ledger) ConsumerChanged(consumer types.UID) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, claim := range l.consumers[consumer] {
		if r := l.claims[claim]; r != nil {
			l.countChange(r.effective())
		}
	}
}

// countChange counts that the consumers of an allocation changed. It needs the mutex.
func (l *Ledger) countChange(allocation *resourceapi.AllocationResult) {
	if allocation == nil {
		return
	}
	for _, id := range poolsOf(allocation) {
		l.ConsumerChanges(unique.Make(id)).Add(1)
	}
}

// differing returns the lists without what they have in common at both ends: of hundreds of consumers,
// an update adds or removes one.
func differing[T comparable](a, b []T) ([]T, []T) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}

// uses records that a consumer uses a claim. It needs the mutex.
func (l *Ledger) uses(consumer, claim types.UID) {
	if claims := l.consumers[consumer]; !slices.Contains(claims, claim) {
		l.consumers[consumer] = append(claims, claim)
	}
}

// leaves records that one of the ways in which a consumer used a claim has ended. It needs the mutex.
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
