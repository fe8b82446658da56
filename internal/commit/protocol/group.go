package protocol

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// A Group is a claim that is reserved for a PodGroup (KEP-5729), and used by attempts of this process. A single pod
// must not give up such a reservation. Only the last pod whose attempt uses the claim does, if any of them may have
// written to it, and only if no pod of the group is bound.
//
// A pod is a user from Reserve until it is bound or has left. During a release no pod may become a user: the late write
// would remove what the new user relies on.
type Group struct {
	// Users are the pods whose attempts use the claim.
	Users sets.Set[types.UID]
	// Written covers all writes that the users together may have made, and the part to roll back with them.
	Written Claim
	// Releasing is set while the last user releases the claim.
	Releasing bool
}

// Join makes a pod a user. During a release it returns false, and does nothing.
func (g *Group) Join(pod types.UID) bool {
	if g.Releasing {
		return false
	}
	if g.Users == nil {
		g.Users = sets.New[types.UID]()
	}
	g.Users.Insert(pod)
	return true
}

// Leave ends the use by a pod whose attempt has failed with the claim in the given state. It returns what the pod has
// to release: all that was written if the pod was the last user, otherwise only its own devices in flight.
func (g *Group) Leave(pod types.UID, c Claim) Claim {
	wasUser := g.end(pod, c)
	if !wasUser || g.Users.Len() > 0 || g.Written.Phase == Untouched {
		c.Phase = Untouched
		return c
	}
	g.Releasing = true
	c.take(g.Written.Takes)
	c.release()
	return c
}

// Bound ends the use by a bound pod: from now on the server knows of it.
func (g *Group) Bound(pod types.UID, c Claim) { g.end(pod, c) }

// end ends a use, and adds what the pod may have written to Written.
func (g *Group) end(pod types.UID, c Claim) (wasUser bool) {
	if !g.Users.Has(pod) {
		return false
	}
	g.Users.Delete(pod)
	// A claim that has lost is released with its allocation, even if this attempt has written nothing yet.
	if c.Phase != Untouched || c.Takes == Allocation {
		g.Written.Phase = Sent
		g.Written.take(c.Takes)
	}
	return true
}

// Over reports whether the Group can be forgotten.
func (g *Group) Over() bool { return g.Users.Len() == 0 && !g.Releasing }
