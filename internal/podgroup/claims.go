package podgroup

import (
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/commit"
)

// Claims has the claims that are reserved for a PodGroup and that attempts of this process use.
// A use begins with Reserve, and ends with PostBind or Unreserve. It is safe for concurrent use.
type Claims struct {
	mutex  sync.Mutex
	claims map[types.UID]*usedClaim // by UID
}

// usedClaim is forgotten when it is over.
type usedClaim struct {
	commit.Group
	// allocation is the one that goes if the allocation does, nil until a user leaves that
	// has written it, or with which it has lost.
	allocation *resourceapi.AllocationResult
}

// NewClaims makes one that knows of no use.
func NewClaims() *Claims { return &Claims{claims: make(map[types.UID]*usedClaim)} }

// Join makes a pod a user of the claim. It reports false, and does nothing, while the claim
// is being released.
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

// Leave ends a pod's use because its attempt failed, and returns what the pod has to
// release, and which allocation goes with it. After the release, Released has to be called.
func (g *Claims) Leave(claim, pod types.UID, state commit.Claim, allocation *resourceapi.AllocationResult) (commit.Claim, *resourceapi.AllocationResult) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	known := g.take(claim, state, allocation)
	state = known.Leave(pod, state)
	g.forget(claim)
	return state, known.allocation
}

// Bound ends a pod's use because it is bound.
func (g *Claims) Bound(claim, pod types.UID, state commit.Claim, allocation *resourceapi.AllocationResult) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.take(claim, state, allocation).Bound(pod, state)
	g.forget(claim)
}

// take returns what is known of a claim whose use ends, and remembers its allocation if that
// goes with a release. It needs the mutex.
func (g *Claims) take(claim types.UID, state commit.Claim, allocation *resourceapi.AllocationResult) *usedClaim {
	known := g.claims[claim]
	if known == nil {
		return &usedClaim{} // Without users, such as while the group is tried as a whole.
	}
	if state.Takes == commit.Allocation {
		known.allocation = allocation
	}
	return known
}

// BeginRelease keeps pods from using a claim that nobody uses, so that it can be released. It reports false, and does
// nothing, if somebody does. Released ends that.
func (g *Claims) BeginRelease(claim types.UID) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.claims[claim] != nil {
		return false
	}
	g.claims[claim] = &usedClaim{Group: commit.Group{Releasing: true}}
	return true
}

// Released ends what Leave or BeginRelease began.
func (g *Claims) Released(claim types.UID) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	delete(g.claims, claim)
}

// forget needs the mutex.
func (g *Claims) forget(claim types.UID) {
	if known := g.claims[claim]; known != nil && known.Over() {
		delete(g.claims, claim)
	}
}

// InUse reports whether somebody uses the claim, or releases it.
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

// Empty reports whether nobody uses any claim.
func (g *Claims) Empty() bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return len(g.claims) == 0
}
