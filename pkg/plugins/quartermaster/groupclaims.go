package quartermaster

import (
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// groupClaims knows whose attempts use the claims that are reserved for a PodGroup
// (KEP-5729). Such a reservation is not one pod's to give up: the last of those whose
// attempts use the claim does that, if any of them may have written to it. What it then
// takes back it takes back only if no pod of the group is bound.
//
// A pod is a user from Reserve on, until it is bound (PostBind) or has left (Unreserve).
// While somebody takes back what was written, nobody becomes a user: the late write would
// take away what the newcomer relies on.
type groupClaims struct {
	mutex  sync.Mutex
	claims map[types.UID]*groupClaim
}

// groupClaim has users, or undoing is set; else it is forgotten.
type groupClaim struct {
	users sets.Set[types.UID] // by UID of pods
	// touched is set once a user may have written to the claim.
	touched bool
	// allocation is what has to go with the reservation: it was sent by a user, or has
	// lost against another claim. nil if the claim had it before.
	allocation *resourceapi.AllocationResult
	// undoing is set while the last user takes back what was written.
	undoing bool
}

func newGroupClaims() *groupClaims { return &groupClaims{claims: make(map[types.UID]*groupClaim)} }

// join makes a pod a user of the claim. It reports false, and does nothing, while
// something is being undone.
func (g *groupClaims) join(claim, pod types.UID) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	known := g.claims[claim]
	if known == nil {
		known = &groupClaim{users: sets.New[types.UID]()}
		g.claims[claim] = known
	}
	if known.undoing {
		return false
	}
	known.users.Insert(pod)
	return true
}

// touch notes that a user is about to write, or that the claim has lost. The allocation
// goes if the group's reservation does; nil leaves that as it is.
func (g *groupClaims) touch(claim types.UID, allocation *resourceapi.AllocationResult) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	known := g.claims[claim]
	if known == nil {
		return
	}
	known.touched = true
	if allocation != nil {
		known.allocation = allocation
	}
}

// leave ends a pod's use because its attempt failed. If it was the last one and something
// may have been written, the caller has to undo that: the answer is a copy of what is
// known, and undone has to be called afterwards. Else the answer is nil.
func (g *groupClaims) leave(claim, pod types.UID) *groupClaim {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	known := g.claims[claim]
	if known == nil || !known.users.Has(pod) {
		return nil
	}
	known.users.Delete(pod)
	switch {
	case known.users.Len() > 0:
		return nil
	case !known.touched:
		delete(g.claims, claim)
		return nil
	default:
		known.undoing = true
		left := *known
		return &left
	}
}

// undone ends what leave began.
func (g *groupClaims) undone(claim types.UID) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	delete(g.claims, claim)
}

// bound ends a pod's use because it is bound. From then on the server knows.
func (g *groupClaims) bound(claim, pod types.UID) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	known := g.claims[claim]
	if known == nil || !known.users.Has(pod) {
		return
	}
	if known.users.Delete(pod); known.users.Len() == 0 {
		delete(g.claims, claim)
	}
}

// inUse reports whether somebody uses the claim, or takes back what was written.
func (g *groupClaims) inUse(claim types.UID) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.claims[claim] != nil
}

// isUndoing reports whether what was written is being taken back.
func (g *groupClaims) isUndoing(claim types.UID) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	known := g.claims[claim]
	return known != nil && known.undoing
}
