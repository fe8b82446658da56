package claimwriter

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/quartermaster-dra/quartermaster/internal/objectversion"
)

// maxGroupWrites is of how many claims a Writer remembers its latest write. Of others it
// makes one write more.
const maxGroupWrites = 1024

// groupWrites remembers for claims that are reserved for a group of pods what this Writer has
// written into them, so that a gang of a hundred pods does not write a hundred times to say
// the same. Nobody's request that was decided on an older version can take effect any more,
// and that holds for all pods of the group. What this Writer may have sent itself to take
// something away counts as somebody else's: after that, nothing is remembered.
type groupWrites struct{ claims *lru.Cache }

// groupWrite is the latest write for a group.
type groupWrite struct {
	group types.UID
	// version is the resourceVersion that the claim had after it, or a later one.
	version string
}

func newGroupWrites() groupWrites { return groupWrites{lru.New(maxGroupWrites)} }

// note remembers a write for the consumer, if that is a group, with the claim as it was
// afterwards.
func (g groupWrites) note(claim *resourceapi.ResourceClaim, consumer resourceapi.ResourceClaimConsumerReference) {
	if !isPod(consumer) {
		g.claims.Add(claim.UID, groupWrite{consumer.UID, claim.ResourceVersion})
	}
}

// cover reports whether there was a write for the consumer before the claim became what it
// is, or when it did.
func (g groupWrites) cover(claim *resourceapi.ResourceClaim, consumer resourceapi.ResourceClaimConsumerReference) bool {
	known, found := g.claims.Get(claim.UID)
	if !found || isPod(consumer) {
		return false
	}
	write := known.(groupWrite)
	return write.group == consumer.UID && objectversion.AtLeast(claim.ResourceVersion, write.version)
}

func (g groupWrites) forget(claim types.UID) { g.claims.Remove(claim) }

func isPod(consumer resourceapi.ResourceClaimConsumerReference) bool {
	return consumer.APIGroup == "" && consumer.Resource == "pods"
}
