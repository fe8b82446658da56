package quartermaster

import (
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/commit"
)

// groupClaims has the claims that are reserved for a PodGroup and that attempts use, by UID.
// A use begins with Reserve, and ends with PostBind or Unreserve.
type groupClaims struct {
	mutex  sync.Mutex
	claims map[types.UID]*groupClaim
}

// groupClaim is forgotten when it is over.
type groupClaim struct {
	commit.Group
	// allocation is the one that goes if the allocation does, nil until a user leaves that
	// has written it, or with which it has lost.
	allocation *resourceapi.AllocationResult
}

func newGroupClaims() *groupClaims { return &groupClaims{claims: make(map[types.UID]*groupClaim)} }

// join makes a pod a user of the claim. It reports false, and does nothing, while the claim
// is being released.
func (g *groupClaims) join(claim, pod types.UID) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	known := g.claims[claim]
	if known == nil {
		known = &groupClaim{}
		g.claims[claim] = known
	}
	return known.Join(pod)
}

// leave ends a pod's use because its attempt failed, and returns what the pod has to
// release, and which allocation goes with it. After the release, released has to be called.
func (g *groupClaims) leave(claim, pod types.UID, state commit.Claim, allocation *resourceapi.AllocationResult) (commit.Claim, *resourceapi.AllocationResult) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	known := g.take(claim, state, allocation)
	state = known.Leave(pod, state)
	g.forget(claim)
	return state, known.allocation
}

// bound ends a pod's use because it is bound.
func (g *groupClaims) bound(claim, pod types.UID, state commit.Claim, allocation *resourceapi.AllocationResult) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.take(claim, state, allocation).Bound(pod, state)
	g.forget(claim)
}

// take returns what is known of a claim whose use ends, and remembers its allocation if that
// goes with a release. It needs the mutex.
func (g *groupClaims) take(claim types.UID, state commit.Claim, allocation *resourceapi.AllocationResult) *groupClaim {
	known := g.claims[claim]
	if known == nil {
		return &groupClaim{} // Without users, such as while the group is tried as a whole.
	}
	if state.Takes == commit.Allocation {
		known.allocation = allocation
	}
	return known
}

// released ends what leave began.
func (g *groupClaims) released(claim types.UID) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	delete(g.claims, claim)
}

// forget needs the mutex.
func (g *groupClaims) forget(claim types.UID) {
	if known := g.claims[claim]; known != nil && known.Over() {
		delete(g.claims, claim)
	}
}

// inUse reports whether somebody uses the claim, or releases it.
func (g *groupClaims) inUse(claim types.UID) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.claims[claim] != nil
}

// isUndoing reports whether the claim is being released.
func (g *groupClaims) isUndoing(claim types.UID) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	known := g.claims[claim]
	return known != nil && known.Releasing
}
