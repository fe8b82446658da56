package guard

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/quartermaster-dra/quartermaster/internal/objectversion"
)

// Seen ends the approval of a claim if the ledger knows a newer version of it, or that it is
// gone. Whoever has told the ledger of a claim, by "namespace/name", calls it afterwards.
func (b *Book) Seen(claim string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for uid := range b.named[claim] {
		if b.isOver(b.approvals[uid]) {
			b.end(uid)
		}
	}
}

// Fenced notes that an approved write has been ruled out: the server has the claim at the given
// version, and so refuses whatever rests on an older one. The approval ends when the ledger
// knows that version, because the write may have come before. Whether the server ever had the
// version that was approved does not matter.
func (b *Book) Fenced(approval Approval, version string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	current := b.approvals[approval.Claim.UID]
	if current != nil && current.Version == approval.Version {
		b.fenced(current, version)
	}
}

// fenced notes the version that a claim has by which its approval is ruled out.
func (b *Book) fenced(approval *Approval, version string) {
	if approval.fenced == "" { // From then on only the watch is late.
		b.count(approval)
	}
	approval.fenced = version
	if b.isOver(approval) {
		b.end(approval.Claim.UID)
	}
}

// Stored notes that an approved write was carried out. The watch need not have shown that yet, and need not ever if the claim
// was released meanwhile.
func (b *Book) Stored(approval Approval) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if current := b.approvals[approval.Claim.UID]; current != nil && current.Version == approval.Version {
		current.stored = true
	}
}

// Outage notes that nothing could be fenced, whichever claim it was.
func (b *Book) Outage() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.outage = time.Now()
}

// Gone ends the approval of a claim that the server does not have any more.
func (b *Book) Gone(claim types.UID) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.approvals[claim] != nil {
		b.end(claim)
	}
}

// Expire ends an approval whose write cannot come any more, because it was too long ago, when the
// ledger knows the version that the server has. It does nothing if the server has asked again since.
func (b *Book) Expire(approval Approval, version string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	current := b.approvals[approval.Claim.UID]
	if current == nil || current.allocation != approval.allocation || current.asked != approval.asked {
		return
	}
	b.fenced(current, version)
}

// Approvals returns those that may be carried out yet.
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

// exists reports whether the watch, or the approval of an earlier request, has shown that there is a
// claim with that name and UID at that version.
func (b *Book) exists(r *Request) bool {
	if state := b.ledger.State(r.Claim.UID); state.Version == r.Version && state.Ref == r.Claim {
		return true
	}
	approval := b.approvals[r.Claim.UID]
	return approval != nil && approval.Claim == r.Claim && approval.Version == r.Version
}

// isOver reports whether an approval cannot be carried out any more, or has been.
func (b *Book) isOver(approval *Approval) bool {
	state := b.ledger.State(approval.Claim.UID)
	return state.Gone || objectversion.Newer(state.Version, approval.Version) ||
		approval.fenced != "" && objectversion.AtLeast(state.Version, approval.fenced)
}

// begin notes the approval of a request.
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
	if freed := b.ledger.RemoveInFlight(claim, user(claim)); b.Ended != nil {
		b.Ended(ref, freed)
	}
}

// count counts what an approval has kept for nothing. In an outage it is nobody's fault that nothing was stored.
func (b *Book) count(approval *Approval) {
	if !approval.stored && approval.began.After(b.outage) {
		b.unstored.add(approval.Claim.Namespace, approval.began, time.Now())
	}
}
