package commitorder

import (
	"maps"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

const (
	// delayMemory is for how long a delay counts, and the longest that is told: one that
	// took longer counts as much.
	delayMemory = 10 * time.Second
	// announcementMemory is for how long an announcement counts. Whoever has not allocated
	// the claim by then has given that up, and tries again with another announcement, or
	// with none because the claim is still protected.
	announcementMemory = time.Minute
)

// backlog tells how far other schedulers are behind with their writes. They write twice
// for an allocation: first the finalizer that protects the claim, then the allocation.
// What lies between the two is what a request of theirs takes, with the time for which
// their client holds it back to keep to its limit of requests per second. The protection
// also announces an allocation of which nobody else knows yet what it will be.
//
// Anybody who may create a claim can protect it. So an announcement counts only from an
// author that has allocated a claim before, which takes rights that users do not have, and
// only the first one of a claim until that is allocated.
type backlog struct {
	// announced has the claims that others protect and that are not allocated, and those
	// that are not protected any more but were.
	announced map[types.UID]announcement
	// authors are the field managers, except ours, that have allocated a claim.
	authors sets.Set[string]
	// delays are those of the last delayMemory, as far as there is no longer one after
	// them: the first is the longest, the last the most recent.
	delays []delay
}

// announcement is that a claim has been protected.
type announcement struct {
	// since is zero if it announces nothing: the claim was allocated before, or an earlier
	// announcement was taken back.
	since time.Time
	// by are the field managers, usually one.
	by    []string
	claim ledger.ClaimRef
}

// Announcement is a claim that somebody is about to allocate, and since when.
type Announcement struct {
	ledger.ClaimRef
	Since time.Time
}

// delay is how long an allocation took that arrived at some time.
type delay struct {
	arrived time.Time
	took    time.Duration
}

func newBacklog() backlog {
	return backlog{announced: make(map[types.UID]announcement), authors: sets.New[string]()}
}

// note takes over a state of a claim, with the author of its allocation if that is new.
// wasAllocated says whether the state before had an allocation, and first that the state is
// not news, so that what the server has recorded tells how old it is. note returns true if
// the state announces an allocation.
func (b *backlog) note(claim *resourceapi.ResourceClaim, by author, wasAllocated, first bool, now time.Time) bool {
	b.authors.Insert(by.others...)
	before, known := b.announced[claim.UID]
	switch {
	case claim.Status.Allocation != nil:
		delete(b.announced, claim.UID)
		if slices.ContainsFunc(before.by, func(manager string) bool { return slices.Contains(by.others, manager) }) {
			b.add(delay{now, now.Sub(before.since)})
		}
	case !slices.Contains(claim.Finalizers, resourceapi.Finalizer):
		if known {
			b.announced[claim.UID] = announcement{}
		}
	case wasAllocated:
		b.announced[claim.UID] = announcement{}
	case !known:
		a := announcementOf(claim)
		if a.ours() {
			return false
		}
		if !first || a.since.After(now) {
			a.since = now
		}
		a.claim = ledger.RefTo(claim)
		b.announced[claim.UID] = a
		return b.counts(a, now)
	}
	return false
}

// counts reports whether an allocation is to be expected after the announcement.
func (b *backlog) counts(a announcement, now time.Time) bool {
	return !a.since.IsZero() && now.Sub(a.since) <= announcementMemory && b.authors.HasAny(a.by...)
}

// forget is called when a claim is gone.
func (b *backlog) forget(claim types.UID) { delete(b.announced, claim) }

func (b *backlog) add(d delay) {
	if d.took > announcementMemory {
		return // Not a matter of waiting for the server: the pod was tried again.
	}
	d.took = min(d.took, delayMemory)
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
	for _, a := range b.announced {
		if b.counts(a, now) {
			longest = max(longest, min(now.Sub(a.since), delayMemory))
		}
	}
	return longest
}

// noteForeign remembers when devices were allocated by somebody else.
func (o *Order) noteForeign(a *allocation, arrived time.Time) {
	if arrived.After(o.lastForeign) {
		o.lastForeign = arrived
	}
	for i := range a.uses {
		if pool := a.uses[i].pool; arrived.After(o.lastForeignIn[pool]) {
			o.lastForeignIn[pool] = arrived
		}
	}
	if now := o.clock.Now(); len(o.lastForeignIn) > 2*len(o.index.pools)+100 {
		// Most of these pools are gone.
		maps.DeleteFunc(o.lastForeignIn, func(_ inventory.PoolKey, last time.Time) bool { return now.Sub(last) > time.Minute })
	}
}

// Announced returns the claims that others have announced to allocate within the last
// minute, and have not, in no order.
func (o *Order) Announced() []Announcement {
	o.mutex.RLock()
	defer o.mutex.RUnlock()
	now := o.clock.Now()
	var list []Announcement
	for _, a := range o.backlog.announced {
		if o.backlog.counts(a, now) {
			list = append(list, Announcement{a.claim, a.since})
		}
	}
	return list
}

// ForeignDelay returns how long it took others lately to allocate a claim after they had
// announced that by protecting it: the longest time of those allocated within the last ten
// seconds, or announced within the last minute and not allocated yet. Ten seconds stands for
// all that is longer.
func (o *Order) ForeignDelay() time.Duration {
	o.mutex.RLock()
	defer o.mutex.RUnlock()
	return o.backlog.longest(o.clock.Now())
}
