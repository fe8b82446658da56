package harness

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
)

// gaps is about what informers do not see: after a relist they go from one state of
// an object to a later one, and what was written in between is lost. An informer does
// not tell a relist from a watch. So a test that makes clients relist says when.
type gaps struct {
	// until is a revision up to which writes may be missing.
	until revision
	// before is the revision of the state that was known before each write to a claim;
	// 0 is none.
	before map[revision]revision
}

// WritesMayBeMissing says that the informers of the cluster may not see all writes up to
// a resourceVersion, because clients have to list again. What the history of a space
// proves afterwards holds in spite of that.
func (c *Cluster) WritesMayBeMissing(upTo string) {
	c.history.Lock()
	defer c.history.Unlock()
	c.history.gaps.until = max(c.history.gaps.until, revisionOf(upTo))
}

// saw remembers what was known of a claim before it was seen at a revision. old is nil
// or the claim as it was.
func (g *gaps) saw(old any, at revision) {
	if g.before == nil {
		g.before = make(map[revision]revision)
	}
	g.before[at] = 0
	if claim, ok := old.(*resourceapi.ResourceClaim); ok {
		g.before[at] = revisionOf(claim.ResourceVersion)
	}
}

// earliest is when the change of a claim that was seen at a revision can have been
// written: then, unless there was a gap.
func (g *gaps) earliest(at revision) revision {
	if before := g.before[at]; before < g.until {
		return min(before+1, at)
	}
	return at
}

// lastKnown returns the object of an event. Of one that vanished in a gap it is the last
// known state, and it ended later than that.
func lastKnown(obj any) any {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return gone.Obj
	}
	return obj
}
