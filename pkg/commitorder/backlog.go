package commitorder

import (
	"bytes"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/commit"
)

// delayMemory is for how long a delay counts, and the longest one that does.
const delayMemory = 10 * time.Second

// backlog tells how far other schedulers are behind with their writes. They write twice
// for an allocation: first the finalizer that protects the claim, then the allocation.
// What lies between the two is what a request of theirs takes, with the time for which
// their client holds it back to keep to its limit of requests per second. The protection
// also announces an allocation of which nobody else knows yet what it will be.
type backlog struct {
	// announced is since when claims are protected by others and not allocated. It is
	// zero if the claim was allocated before; that announces nothing.
	announced map[types.UID]time.Time
	// delays are those of the last delayMemory, as far as there is no longer one after
	// them: the first is the longest, the last the most recent.
	delays []delay
}

// delay is how long an allocation took that arrived at some time.
type delay struct {
	arrived time.Time
	took    time.Duration
}

// note takes over a state of a claim. wasAllocated says whether the state before had an
// allocation. It returns true if the state announces an allocation.
func (b *backlog) note(claim *resourceapi.ResourceClaim, wasAllocated bool, now time.Time) bool {
	since, known := b.announced[claim.UID]
	switch {
	case claim.Status.Allocation != nil || !slices.Contains(claim.Finalizers, resourceapi.Finalizer):
		delete(b.announced, claim.UID)
		if claim.Status.Allocation != nil && !since.IsZero() {
			b.add(delay{now, now.Sub(since)})
		}
	case wasAllocated:
		b.announced[claim.UID] = time.Time{}
	case !known && !protectedByUs(claim):
		b.announced[claim.UID] = now
		return true
	}
	return false
}

// protectedByUs reports whether an instance of ours has set the finalizer.
func protectedByUs(claim *resourceapi.ResourceClaim) bool {
	for i := range claim.ManagedFields {
		entry := &claim.ManagedFields[i]
		if entry.Manager == commit.FieldManager && entry.Subresource == "" &&
			bytes.Contains(entry.FieldsV1.GetRawBytes(), []byte(`"f:finalizers"`)) {
			return true
		}
	}
	return false
}

// forget is called when a claim is gone.
func (b *backlog) forget(claim types.UID) { delete(b.announced, claim) }

func (b *backlog) add(d delay) {
	if d.took > delayMemory {
		return // Not a matter of waiting for the server: the pod was tried again.
	}
	b.delays = slices.DeleteFunc(b.delays, func(other delay) bool {
		return other.took <= d.took || d.arrived.Sub(other.arrived) > delayMemory
	})
	b.delays = append(b.delays, d)
}

// longest returns the longest delay, including those that have not ended.
func (b *backlog) longest(now time.Time) time.Duration {
	var longest time.Duration
	for _, d := range b.delays {
		if now.Sub(d.arrived) <= delayMemory {
			longest = max(longest, d.took)
		}
	}
	for _, since := range b.announced {
		if age := now.Sub(since); age <= delayMemory {
			longest = max(longest, age)
		}
	}
	return longest
}

// ForeignDelay returns how long it took others lately to allocate a claim after they had
// announced that by protecting it: the longest time of those allocated, or announced and
// not allocated yet, within the last ten seconds.
func (o *Order) ForeignDelay() time.Duration {
	o.mutex.RLock()
	defer o.mutex.RUnlock()
	return o.backlog.longest(o.clock.Now())
}
