package claimlog

import (
	"maps"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

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
	announced map[types.UID]*announcement
	// expected are those among them that count, or may yet.
	expected *expected
	// delays are those of the last delayMemory, as far as there is no longer one after
	// them: the first is the longest, the last the most recent.
	delays []delay
}

// announcement is that a claim has been protected.
type announcement struct {
	since time.Time
	// by are the field managers, usually one.
	by    []string
	claim ledger.ClaimRef
	// position belongs to expected: where it is among those believed, -1 if it is not.
	position int
}

// nothing stands for a claim that is protected, or was, and of which that announces nothing:
// it was allocated before, or an earlier announcement was rolled back.
var nothing = &announcement{position: -1}

// expired reports whether it is too old to count.
func (a *announcement) expired(now time.Time) bool {
	return a.since.IsZero() || now.Sub(a.since) > announcementMemory
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
	return backlog{announced: make(map[types.UID]*announcement), expected: newExpected()}
}

// note takes over a state of a claim, with the author of its allocation if that is new.
// wasAllocated says whether the state before had an allocation, and first that the state is
// not news, so that what the server has recorded tells how old it is. note returns true if
// the state announces an allocation.
func (b *backlog) note(claim *resourceapi.ResourceClaim, by author, wasAllocated, first bool, now time.Time) bool {
	b.expected.learn(by.others)
	before, known := b.announced[claim.UID]
	switch {
	case claim.Status.Allocation != nil:
		b.forget(claim.UID)
		if known && slices.ContainsFunc(before.by, func(manager string) bool { return slices.Contains(by.others, manager) }) {
			b.add(delay{now, now.Sub(before.since)})
		}
	case !slices.Contains(claim.Finalizers, resourceapi.Finalizer):
		if known {
			b.announcesNothing(claim.UID)
		}
	case wasAllocated:
		b.announcesNothing(claim.UID)
	case !known:
		a := announcementOf(claim)
		if a.ours() {
			return false
		}
		if !first || a.since.After(now) {
			a.since = now
		}
		b.announced[claim.UID] = a
		return b.expected.add(a, now)
	}
	return false
}

// forget is called when a claim is gone, or allocated.
func (b *backlog) forget(claim types.UID) {
	if a := b.announced[claim]; a != nil {
		b.expected.remove(a)
		delete(b.announced, claim)
	}
}

func (b *backlog) announcesNothing(claim types.UID) {
	b.forget(claim)
	b.announced[claim] = nothing
}

// keep forgets all claims but those that exist.
func (b *backlog) keep(exists map[types.UID]bool) {
	for claim := range b.announced {
		if !exists[claim] {
			b.forget(claim)
		}
	}
}

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
	if a := b.expected.oldest(now); a != nil {
		longest = max(longest, min(now.Sub(a.since), delayMemory))
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
	counting := o.backlog.expected.all(o.clock.Now())
	list := make([]Announcement, len(counting))
	for i, a := range counting {
		list[i] = Announcement{a.claim, a.since}
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
