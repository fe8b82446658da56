package write

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// maxGroupWrites limits the claims for which a Writer remembers its latest write. For others it
// makes one more write.
const maxGroupWrites = 1024

// groupWrites remembers the latest write of this Writer to each claim that is reserved for a group
// of pods, so that a gang of a hundred pods does not repeat it a hundred times. After that write,
// no request of another process that was decided on an older version can take effect, and that
// holds for all pods of the group. Requests of this Writer that may take something away count like
// those of others: after one of them, the claim is forgotten.
type groupWrites struct{ claims *lru.Cache }

// groupWrite is the latest write for a pod group.
type groupWrite struct {
	group types.UID
	// version is the resourceVersion of the claim after the write, or a later one.
	version string
}

func newGroupWrites() groupWrites { return groupWrites{lru.New(maxGroupWrites)} }

// note remembers a write for the consumer if that is a group. claim is the state after the write.
func (g groupWrites) note(claim *resourceapi.ResourceClaim, consumer resourceapi.ResourceClaimConsumerReference) {
	if !dra.IsPod(consumer) {
		g.claims.Add(claim.UID, groupWrite{consumer.UID, claim.ResourceVersion})
	}
}

// cover reports whether a write for the consumer led to this state of the claim, or to an earlier
// one.
func (g groupWrites) cover(claim *resourceapi.ResourceClaim, consumer resourceapi.ResourceClaimConsumerReference) bool {
	known, found := g.claims.Get(claim.UID)
	if !found || dra.IsPod(consumer) {
		return false
	}
	write := known.(groupWrite)
	return write.group == consumer.UID && informer.AtLeast(claim.ResourceVersion, write.version)
}

func (g groupWrites) forget(claim types.UID) { g.claims.Remove(claim) }
