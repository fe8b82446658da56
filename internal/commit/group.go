package commit

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Group is a claim that is reserved for a PodGroup (KEP-5729), as far as attempts of this
// process use it. Such a reservation is not one pod's to give up: the last of those whose
// attempts use the claim does that, if any of them may have written to it. What it then
// releases it releases only if no pod of the group is bound.
//
// A pod is a user from Reserve on, until it is bound or has left. While somebody releases
// the claim, nobody becomes a user: the late write would take away what the newcomer relies
// on.
type Group struct {
	// Users are the pods whose attempts use the claim.
	Users sets.Set[types.UID]
	// Written is what all of them together may have written, and what goes with it.
	Written Claim
	// Releasing is set while the last user releases the claim.
	Releasing bool
}

// Join makes a pod a user. It reports false, and does nothing, during a release.
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

// Leave ends a user's attempt that has failed with the claim in the given state, and
// returns what the pod has to release: all that was written if it was the last user, else
// only what is in flight for itself.
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

// Bound ends a use because the pod is bound. From then on the server knows.
func (g *Group) Bound(pod types.UID, c Claim) { g.end(pod, c) }

// end ends a use, and remembers what it leaves to others.
func (g *Group) end(pod types.UID, c Claim) (wasUser bool) {
	if !g.Users.Has(pod) {
		return false
	}
	g.Users.Delete(pod)
	if c.Phase != Untouched {
		g.Written.Phase = Sent
		g.Written.take(c.Takes)
	}
	return true
}

// Over reports whether nothing has to be known of the claim any more.
func (g *Group) Over() bool { return g.Users.Len() == 0 && !g.Releasing }
