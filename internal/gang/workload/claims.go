package workload

import (
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/commit/protocol"
)

// Claims tracks the claims that are reserved for a PodGroup and used by attempts of this process. A use begins with
// Reserve, and ends with PostBind or Unreserve. It is safe for concurrent use.
type Claims struct {
	mutex  sync.Mutex
	claims map[types.UID]*usedClaim // by UID
}

// A usedClaim is forgotten when it is over.
type usedClaim struct {
	protocol.Group
	// allocation is the allocation to roll back, nil until a user leaves that has written it, or with which the claim
	// has lost.
	allocation *resourceapi.AllocationResult
}

// NewClaims returns empty Claims.
func NewClaims() *Claims { return &Claims{claims: make(map[types.UID]*usedClaim)} }

// Join makes a pod a user of the claim. While the claim is being released, it returns false and does nothing.
func (g *Claims) Join(claim, pod types.UID) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	known := g.claims[claim]
	if known == nil {
		known = &usedClaim{}
		g.claims[claim] = known
	}
	return known.Join(pod)
}

// Leave ends the use by a pod whose attempt failed, and returns what the pod has to release, and the allocation to roll
// back with it. After the release, the caller must call Released.
func (g *Claims) Leave(claim, pod types.UID, state protocol.Claim, allocation *resourceapi.AllocationResult) (protocol.Claim, *resourceapi.AllocationResult) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	known := g.take(claim, state, allocation)
	state = known.Leave(pod, state)
	g.forget(claim)
	return state, known.allocation
}

// Bound ends the use by a bound pod.
func (g *Claims) Bound(claim, pod types.UID, state protocol.Claim, allocation *resourceapi.AllocationResult) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.take(claim, state, allocation).Bound(pod, state)
	g.forget(claim)
}

// take returns the entry of a claim whose use ends, and stores the allocation if a release has to roll it back. The
// caller must hold the mutex.
func (g *Claims) take(claim types.UID, state protocol.Claim, allocation *resourceapi.AllocationResult) *usedClaim {
	known := g.claims[claim]
	if known == nil {
		return &usedClaim{} // The claim has no users, for example while the group is tried as a whole.
	}
	if state.Takes == protocol.Allocation {
		known.allocation = allocation
	}
	return known
}

// BeginRelease prevents pods from using a claim, so that it can be released. If the claim is in use, it returns false
// and does nothing. Released ends the release. Without Claims nobody knows, and it returns false.
func (g *Claims) BeginRelease(claim types.UID) bool {
	if g == nil {
		return false
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.claims[claim] != nil {
		return false
	}
	g.claims[claim] = &usedClaim{Group: protocol.Group{Releasing: true}}
	return true
}

// Released ends a release that Leave or BeginRelease began.
func (g *Claims) Released(claim types.UID) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	delete(g.claims, claim)
}

// forget removes an entry that is over. The caller must hold the mutex.
func (g *Claims) forget(claim types.UID) {
	if known := g.claims[claim]; known != nil && known.Over() {
		delete(g.claims, claim)
	}
}

// InUse reports whether any pod of this process uses or releases the claim.
func (g *Claims) InUse(claim types.UID) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.claims[claim] != nil
}

// IsReleasing reports whether the claim is being released.
func (g *Claims) IsReleasing(claim types.UID) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	known := g.claims[claim]
	return known != nil && known.Releasing
}

// Empty reports whether no claim is in use.
func (g *Claims) Empty() bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return len(g.claims) == 0
}
