package ledger

import (
	"k8s.io/apimachinery/pkg/types"
)

// Rename makes what is in flight for one claim the other's: a claim that is put in flight
// before it exists gets its UID when it is created (KEP-5004). At no moment do the
// devices look free, and nothing counts twice. Without anything in flight under the first
// UID it does nothing.
func (l *Ledger) Rename(from types.UID, to ClaimRef) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	old := l.claims[from]
	if old == nil || old.inFlight == nil || from == to.UID {
		return
	}
	r := l.record(to)
	oldBefore, before := old.effective(), r.effective()
	r.inFlight, r.users = old.inFlight, old.users
	old.inFlight, old.users = nil, nil
	for _, user := range r.users {
		l.uses(user, to.UID)
		l.leaves(user, old)
	}
	if old.version == "" {
		delete(l.claims, from)
	}
	for _, id := range poolsOf(r.inFlight) {
		// The new one first, so that it is in use throughout, and what it draws is not forgotten.
		l.store(id, l.Pool(id).change(id, to, before, r.effective()).change(id, old.ref, oldBefore, old.effective()))
	}
}
