package claimlog

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
	// foreignMemory is for how long it counts that others were allocated something of a pool.
	foreignMemory = time.Minute
	// maxNamespaces is of how many namespaces a pool may remember that without a look whether it still counts.
	maxNamespaces = 100
)

// backlog tells how far other schedulers are behind with their writes to the claims of one
// namespace. They write twice for an allocation: first the finalizer that protects the claim, then
// the allocation. What lies between the two is what a request of theirs takes, with the time for
// which their client holds it back to keep to its limit of requests per second. The protection
// also announces an allocation of which nobody else knows yet what it will be.
//
// Anybody who may create a claim can protect it, under any name. So an announcement counts only from
// an author that has allocated a claim before, only the first one of a claim until that is
// allocated, and only for pods of the same namespace.
type backlog struct {
	// announced has the claims that others protect and that are not allocated, and those
	// that are not protected any more but were.
	announced map[types.UID]*announcement
	// expected are those among them that count, or may yet.
	expected *expected
	// delays are those of the last delayMemory, as far as there is no longer one after
	// them: the first is the longest, the last the most recent.
	delays []delay
	// heard is when something was allocated by others, or announced.
	heard time.Time
}

// backlogs are those of all namespaces of which there is something to be told.
type backlogs struct {
	of map[string]*backlog
	// authors are the field managers, except ours, that have allocated a claim.
	authors sets.Set[string]
	// limit is with how many namespaces to look which of them have nothing to tell any more.
	limit int
}

// minBacklogs is how many of them are not worth to be looked at.
const minBacklogs = 100

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

func newBacklogs() backlogs {
	return backlogs{of: make(map[string]*backlog), authors: sets.New[string](), limit: minBacklogs}
}

// in returns the backlog of a namespace.
func (b *backlogs) in(namespace string, now time.Time) *backlog {
	if known := b.of[namespace]; known != nil {
		return known
	}
	if len(b.of) >= b.limit {
		maps.DeleteFunc(b.of, func(_ string, old *backlog) bool {
			return len(old.announced) == 0 && now.Sub(old.heard) > announcementMemory
		})
		b.limit = max(minBacklogs, 2*len(b.of))
	}
	added := &backlog{announced: make(map[types.UID]*announcement), expected: newExpected()}
	b.of[namespace] = added
	return added
}

// learn takes note of field managers that have allocated a claim.
func (b *backlogs) learn(managers []string) {
	for _, manager := range managers {
		if b.authors.Has(manager) {
			continue
		}
		b.authors.Insert(manager)
		for _, known := range b.of {
			known.expected.learn(manager)
		}
	}
}

// note takes over a state of a claim, with the author of its allocation if that is new.
// wasAllocated says whether the state before had an allocation, and first that the state is
// not news, so that what the server has recorded tells how old it is. note returns true if
// the state announces an allocation.
func (b *backlogs) note(claim *resourceapi.ResourceClaim, by author, wasAllocated, first bool, now time.Time) bool {
	b.learn(by.others)
	protected := slices.Contains(claim.Finalizers, resourceapi.Finalizer)
	if b.of[claim.Namespace] == nil && (claim.Status.Allocation != nil || !protected) {
		return false
	}
	return b.in(claim.Namespace, now).note(claim, by, protected, wasAllocated, first, b.authors, now)
}

func (b *backlog) note(claim *resourceapi.ResourceClaim, by author, protected, wasAllocated, first bool, authors sets.Set[string], now time.Time) bool {
	before, known := b.announced[claim.UID]
	switch {
	case claim.Status.Allocation != nil:
		b.forget(claim.UID)
		if known && slices.ContainsFunc(before.by, func(manager string) bool { return slices.Contains(by.others, manager) }) {
			b.add(delay{now, now.Sub(before.since)})
		}
	case !protected:
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
		return b.expected.add(a, authors, now)
	}
	return false
}

// forget is called when a claim is gone.
func (b *backlogs) forget(claim *resourceapi.ResourceClaim) {
	if known := b.of[claim.Namespace]; known != nil {
		known.forget(claim.UID)
	}
}

// keep forgets all claims but those that exist.
func (b *backlogs) keep(exists map[types.UID]bool) {
	for _, known := range b.of {
		known.keep(exists)
	}
}

// announcesAny reports whether anything is known of claims that others protect.
func (b *backlogs) announcesAny() bool {
	for _, known := range b.of {
		if len(known.announced) > 0 {
			return true
		}
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
	o.hear(a.ref.Namespace, arrived)
	for i := range a.uses {
		pool := a.uses[i].pool
		last := o.lastForeignIn[pool]
		if last == nil {
			last = make(map[string]time.Time)
			o.lastForeignIn[pool] = last
		}
		if len(last) > maxNamespaces {
			forgetOld(last, o.clock.Now())
		}
		if arrived.After(last[a.ref.Namespace]) {
			last[a.ref.Namespace] = arrived
		}
	}
	now := o.clock.Now()
	if len(o.lastForeignIn) <= 2*len(o.index.pools)+100 {
		return
	}
	maps.DeleteFunc(o.lastForeignIn, func(_ inventory.PoolKey, last map[string]time.Time) bool { // Most of these pools are gone.
		forgetOld(last, now)
		return len(last) == 0
	})
}

// forgetOld drops what does not count any more.
func forgetOld(last map[string]time.Time, now time.Time) {
	maps.DeleteFunc(last, func(_ string, at time.Time) bool { return now.Sub(at) > foreignMemory })
}

// hear remembers when others have allocated something in a namespace, or announced it.
func (o *Order) hear(namespace string, at time.Time) {
	if at.After(o.lastForeign) {
		o.lastForeign = at
	}
	if in := o.backlog.in(namespace, o.clock.Now()); at.After(in.heard) {
		in.heard = at
	}
}

// Announced returns the claims of a namespace that others have announced to allocate within the last
// minute, and have not, in no order.
func (o *Order) Announced(namespace string) []Announcement {
	o.mutex.RLock()
	defer o.mutex.RUnlock()
	in := o.backlog.of[namespace]
	if in == nil {
		return nil
	}
	counting := in.expected.all(o.clock.Now())
	list := make([]Announcement, len(counting))
	for i, a := range counting {
		list[i] = Announcement{a.claim, a.since}
	}
	return list
}

// ForeignDelay returns how long it took others lately to allocate a claim of a namespace after they
// had announced that by protecting it: the longest time of those allocated within the last ten
// seconds, or announced within the last minute and not allocated yet. Ten seconds stands for
// all that is longer.
func (o *Order) ForeignDelay(namespace string) time.Duration {
	o.mutex.RLock()
	defer o.mutex.RUnlock()
	in := o.backlog.of[namespace]
	if in == nil {
		return 0
	}
	return in.longest(o.clock.Now())
}

// LongestForeignDelay returns the longest ForeignDelay of all namespaces.
func (o *Order) LongestForeignDelay() (longest time.Duration) {
	o.mutex.RLock()
	defer o.mutex.RUnlock()
	now := o.clock.Now()
	for _, in := range o.backlog.of {
		longest = max(longest, in.longest(now))
	}
	return longest
}
