package guard

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// Seen ends the approval of a claim if the ledger knows a newer version of it, or knows that it is gone. Call it with
// "namespace/name" after each change of the claim in the ledger.
func (b *Book) Seen(claim string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for uid := range b.named[claim] {
		if b.isOver(b.approvals[uid]) {
			b.end(uid)
		}
	}
}

// Fenced records that an approved write is ruled out: the server has the claim at the given version, and refuses
// writes based on an older one. The approval ends when the ledger knows that version, because the write may have come
// before the fence. It does not matter whether the server ever had the approved version.
func (b *Book) Fenced(approval Approval, version string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	current := b.approvals[approval.Claim.UID]
	if current != nil && current.Version == approval.Version {
		b.fenced(current, version)
	}
}

// fenced records the version of a claim that rules out its approved write.
func (b *Book) fenced(approval *Approval, version string) {
	if approval.fenced == "" { // From now on, only the watch is late.
		b.count(approval)
	}
	approval.fenced = version
	if b.isOver(approval) {
		b.end(approval.Claim.UID)
	}
}

// Stored records that an approved write was stored. The watch may not have shown that yet, and never does if the
// claim was released meanwhile.
func (b *Book) Stored(approval Approval) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if current := b.approvals[approval.Claim.UID]; current != nil && current.Version == approval.Version {
		current.stored = true
	}
}

// Outage records that the API server was unavailable for fences, whatever the claim.
func (b *Book) Outage() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.outage = time.Now()
}

// Gone ends the approval of a claim that the server no longer has.
func (b *Book) Gone(claim types.UID) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.approvals[claim] != nil {
		b.end(claim)
	}
}

// Expire ends an approval that is too old for its write to come, once the ledger knows the version that the server
// has. It does nothing if the server has asked again since.
func (b *Book) Expire(approval Approval, version string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	current := b.approvals[approval.Claim.UID]
	if current == nil || current.allocation != approval.allocation || current.asked != approval.asked {
		return
	}
	b.fenced(current, version)
}

// Approvals returns the approvals that may still be stored.
func (b *Book) Approvals() []Approval {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	approvals := make([]Approval, 0, len(b.approvals))
	for _, approval := range b.approvals {
		approvals = append(approvals, *approval)
	}
	slices.SortFunc(approvals, func(x, y Approval) int { return cmp.Compare(x.Claim.UID, y.Claim.UID) })
	return approvals
}

// exists reports whether the watch, or the approval of an earlier request, has shown a claim with that name and UID
// at that version.
func (b *Book) exists(r *Request) bool {
	if state := b.ledger.State(r.Claim.UID); state.Version == r.Version && state.Ref == r.Claim {
		return true
	}
	approval := b.approvals[r.Claim.UID]
	return approval != nil && approval.Claim == r.Claim && approval.Version == r.Version
}

// isOver reports whether an approved write was stored or cannot be stored any more.
func (b *Book) isOver(approval *Approval) bool {
	state := b.ledger.State(approval.Claim.UID)
	return state.Gone || informer.Newer(state.Version, approval.Version) ||
		approval.fenced != "" && informer.AtLeast(state.Version, approval.fenced)
}

// begin records the approval of a request.
func (b *Book) begin(r *Request) {
	b.approvals[r.Claim.UID] = &Approval{Claim: r.Claim, Version: r.Version, allocation: r.After, asked: 1, began: time.Now()}
	name := r.Claim.String()
	if b.named[name] == nil {
		b.named[name] = sets.New[types.UID]()
	}
	b.named[name].Insert(r.Claim.UID)
}

// end ends the approval of a claim.
func (b *Book) end(claim types.UID) {
	ref := b.approvals[claim].Claim
	if b.approvals[claim].fenced == "" && b.ledger.State(claim).Committed == nil {
		b.count(b.approvals[claim])
	}
	name := ref.String()
	if b.named[name].Delete(claim); b.named[name].Len() == 0 {
		delete(b.named, name)
	}
	delete(b.approvals, claim)
	if freed := b.ledger.RemoveInFlight(claim, user(claim)); b.Scheduler != nil {
		b.Scheduler.ApprovalEnded(ref, freed)
	}
}

// count charges the namespace for an approval that blocked devices in vain. During an outage it charges nothing,
// because the namespace is not the cause.
func (b *Book) count(approval *Approval) {
	if !approval.stored && approval.began.After(b.outage) {
		b.unstored.add(approval.Claim.Namespace, approval.began, time.Now())
	}
}
