package ledger

import (
	"k8s.io/apimachinery/pkg/types"
)

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
