package ledger

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AddInFlight records that a claim is about to get an allocation, for the attempt to schedule the
// pod with the UID user. It fails and changes nothing if another claim holds a device of the allocation
// by now, if too little is left of a counter or capacity or it is unknown how much, and if compatibility
// groups of the devices in use rule a device out.
// If the server is known to have allocated the claim in the same way, the usage does not change.
//
// Pods that are scheduled together may rely on one allocation of a shared claim. So may the guard,
// which approves the writes of a pod's attempt. Each of them adds itself with an allocation of the
// same devices; an allocation of other devices is refused. The first allocation stays; later ones
// may differ in other fields, because the server stores a timestamp and defaults. The entry ends
// with its last user. A user that wants to replace its own in-flight allocation must remove it
// first, to learn which devices became free.
func (l *Ledger) AddInFlight(ref ClaimRef, user types.UID, allocation *resourceapi.AllocationResult) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.add(ref, user, allocation, judgement{pools: l.Pools})
}

// judgement sets the rules for an allocation that is put in flight.
type judgement struct {
	// pools looks up the pools to judge counters and capacities by; nil skips that check.
	pools Pools
	// again makes an allocation that is already in flight be judged, too.
	again bool
}

// add implements AddInFlight. The caller must hold the mutex.
func (l *Ledger) add(ref ClaimRef, user types.UID, allocation *resourceapi.AllocationResult, by judgement) error {
	r := l.claims[ref.UID]
	if r != nil && r.inFlight != allocation && r.inFlight != nil && sameUse(r.inFlight, allocation) {
		allocation = r.inFlight
	}
	if r != nil && r.inFlight != nil && r.inFlight != allocation && !slices.Equal(r.users, []types.UID{user}) {
		return fmt.Errorf("claim %s was to be allocated for a pod but another allocation of it is in flight for %d other pods; "+
			"trying again when that has ended", ref, len(r.users))
	}
	if err := l.held(ref, allocation); err != nil {
		return err
	}
	if r == nil || !sameUse(r.committed, allocation) {
		if err := l.overdraw(ref, r, allocation, by); err != nil {
			return err
		}
	}
	r = l.record(ref)
	before := r.effective()
	if r.inFlight == nil && l.Clock != nil {
		r.since = l.Clock()
	}
	r.inFlight = allocation
	if !slices.Contains(r.users, user) {
		r.users = append(r.users, user)
		l.uses(user, ref.UID)
		l.countChange(r.effective())
	}
	l.publish(ref, before, r.effective())
	return nil
}

// RemoveInFlight undoes AddInFlight for a user, whether the allocation was written (then Observe
// came first) or given up. The allocation stays in flight while it has other users. RemoveInFlight
// is idempotent.
func (l *Ledger) RemoveInFlight(uid, user types.UID) Freed {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	r := l.claims[uid]
	if r == nil || !slices.Contains(r.users, user) {
		return nil
	}
	if len(r.users) > 1 {
		r.users = slices.DeleteFunc(r.users, func(other types.UID) bool { return other == user })
		l.leaves(user, r)
		l.countChange(r.effective())
		return nil
	}
	before := r.effective()
	r.inFlight, r.users, r.both = nil, nil, both{}
	l.leaves(user, r)
	l.countChange(r.committed)
	if r.version == "" && r.kept == nil {
		delete(l.claims, uid)
	}
	return l.publish(r.ref, before, r.effective())
}

// InFlight returns the allocation that is in flight for a claim, or nil.
func (l *Ledger) InFlight(uid types.UID) *resourceapi.AllocationResult {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if r := l.claims[uid]; r != nil {
		return r.inFlight
	}
	return nil
}

// InFlightSince returns since when an allocation is in flight for a claim, by Clock, 0 if none is.
func (l *Ledger) InFlightSince(uid types.UID) int64 {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if r := l.claims[uid]; r != nil && r.inFlight != nil {
		return r.since
	}
	return 0
}

// InFlightCount returns how many claims have an allocation in flight.
func (l *Ledger) InFlightCount() int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	n := 0
	for _, r := range l.claims {
		if r.inFlight != nil {
			n++
		}
	}
	return n
}

// Rename moves the in-flight allocation of one claim to another: a claim that is put in flight
// before it exists gets its UID when it is created (KEP-5004). At no moment do the devices look
// free or count twice. Rename does nothing if no allocation is in flight under the first UID.
func (l *Ledger) Rename(from types.UID, to ClaimRef) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	old := l.claims[from]
	if old == nil || old.inFlight == nil || from == to.UID {
		return
	}
	r := l.record(to)
	oldBefore, before := old.effective(), r.effective()
	r.inFlight, r.users, r.since = old.inFlight, old.users, old.since
	old.inFlight, old.users = nil, nil
	for _, user := range r.users {
		l.uses(user, to.UID)
		l.leaves(user, old)
	}
	if old.version == "" {
		delete(l.claims, from)
	}
	for _, id := range poolsOf(r.inFlight) {
		// Add the new claim first, so that the devices stay in use throughout and their consumption
		// is not forgotten.
		l.store(id, l.Pool(id).change(id, to, before, r.effective()).change(id, old.ref, oldBefore, old.effective()))
	}
}
