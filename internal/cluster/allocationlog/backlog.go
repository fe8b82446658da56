package allocationlog

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
	// delayMemory is the time for which a delay counts, and the maximum delay: longer ones count as
	// this much.
	delayMemory = 10 * time.Second
	// announcementMemory is the time for which an announcement counts. A scheduler that has not
	// allocated the claim by then has given up; it tries again with another announcement, or
	// without one because the claim is still protected.
	announcementMemory = time.Minute
	// foreignMemory is the time for which an allocation by another scheduler in a pool counts.
	foreignMemory = time.Minute
	// maxNamespaces limits the namespaces that a pool remembers before expired entries are dropped.
	maxNamespaces = 100
)

// backlog measures how long other schedulers take for their writes to the claims of one namespace.
// They write twice for an allocation: first the finalizer that protects the claim, then the
// allocation. The time between the two is the duration of a request plus the wait in their client's
// rate limiter. The protection also announces an allocation whose devices no other program knows
// yet.
//
// Any user who may create a claim can protect it, under any field manager. So an announcement
// counts only if its author has allocated a claim before. Only the first announcement of a claim
// counts until the claim is allocated, and only for pods of the same namespace.
type backlog struct {
	// announced holds the unallocated claims that others protect, or protected earlier.
	announced map[types.UID]*announcement
	// expected holds those announcements that count, or may count later.
	expected *expected
	// delays holds the delays of the last delayMemory, without those that a longer one followed.
	// The first is the longest, the last the most recent.
	delays []delay
	// heard is the time when another scheduler last allocated or announced something.
	heard time.Time
}

// backlogs holds the backlog of each namespace that has one.
type backlogs struct {
	of map[string]*backlog
	// authors holds the field managers, except our own, that have allocated a claim.
	authors sets.Set[string]
	// limit is the number of namespaces at which expired backlogs are dropped.
	limit int
}

// minBacklogs is the minimum of backlogs.limit: fewer are not worth checking.
const minBacklogs = 100

// announcement records that a claim was protected.
type announcement struct {
	since time.Time
	// by lists the field managers, usually one.
	by    []string
	claim ledger.ClaimRef
	// position belongs to expected: the index in believed, -1 if it is not there.
	position int
}

// nothing stands for a claim whose protection announces nothing: it was allocated before, or an
// earlier announcement was rolled back.
var nothing = &announcement{position: -1}

// expired reports whether the announcement is too old to count.
func (a *announcement) expired(now time.Time) bool {
	return a.since.IsZero() || now.Sub(a.since) > announcementMemory
}

// Announcement is a claim that another scheduler is about to allocate, with the time of its
// announcement.
type Announcement struct {
	ledger.ClaimRef
	Since time.Time
}

// delay is the duration of an allocation, with its time of arrival.
type delay struct {
	arrived time.Time
	took    time.Duration
}

func newBacklogs() backlogs {
	return backlogs{of: make(map[string]*backlog), authors: sets.New[string](), limit: minBacklogs}
}

// in returns the backlog of a namespace, and creates it if needed.
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

// learn records field managers that have allocated a claim.
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

// note processes a state of a claim, with the author of its allocation if that is new. wasAllocated
// says whether the previous state had an allocation. first says that the state is not news, so that
// its age is the one that the server recorded. note returns true if the state announces an
// allocation.
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

// forget must be called when a claim is deleted.
func (b *backlogs) forget(claim *resourceapi.ResourceClaim) {
	if known := b.of[claim.Namespace]; known != nil {
		known.forget(claim.UID)
	}
}

// keep drops all claims but the existing ones.
func (b *backlogs) keep(exists map[types.UID]bool) {
	for _, known := range b.of {
		known.keep(exists)
	}
}

// announcesAny reports whether any claim protected by others is known.
func (b *backlogs) announcesAny() bool {
	for _, known := range b.of {
		if len(known.announced) > 0 {
			return true
		}
	}
	return false
}

// forget must be called when a claim is deleted or allocated.
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

// keep drops all claims but the existing ones.
func (b *backlog) keep(exists map[types.UID]bool) {
	for claim := range b.announced {
		if !exists[claim] {
			b.forget(claim)
		}
	}
}

func (b *backlog) add(d delay) {
	if d.took > announcementMemory {
		return // This is no delay of requests: the pod was tried again.
	}
	d.took = min(d.took, delayMemory)
	b.delays = slices.DeleteFunc(b.delays, func(other delay) bool {
		return other.took <= d.took || d.arrived.Sub(other.arrived) > delayMemory
	})
	b.delays = append(b.delays, d)
}

// longest returns the longest delay, including those that still last.
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

// noteForeign records when another scheduler allocated devices.
func (o *Log) noteForeign(a *allocation, arrived time.Time) {
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

// forgetOld drops the entries that are too old to count.
func forgetOld(last map[string]time.Time, now time.Time) {
	maps.DeleteFunc(last, func(_ string, at time.Time) bool { return now.Sub(at) > foreignMemory })
}

// hear records when another scheduler allocated or announced something in a namespace.
func (o *Log) hear(namespace string, at time.Time) {
	if at.After(o.lastForeign) {
		o.lastForeign = at
	}
	if in := o.backlog.in(namespace, o.clock.Now()); at.After(in.heard) {
		in.heard = at
	}
}

// Announced returns the claims of a namespace that others announced within the last minute and have
// not allocated. The order is undefined.
func (o *Log) Announced(namespace string) []Announcement {
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

// ForeignDelay returns how long other schedulers recently took to allocate a claim of a namespace
// after they announced that by protecting it. It is the longest time of the claims that were
// allocated within the last ten seconds, or announced within the last minute and not allocated yet.
// Longer times count as ten seconds.
func (o *Log) ForeignDelay(namespace string) time.Duration {
	o.mutex.RLock()
	defer o.mutex.RUnlock()
	in := o.backlog.of[namespace]
	if in == nil {
		return 0
	}
	return in.longest(o.clock.Now())
}

// LongestForeignDelay returns the longest ForeignDelay of all namespaces.
func (o *Log) LongestForeignDelay() (longest time.Duration) {
	o.mutex.RLock()
	defer o.mutex.RUnlock()
	now := o.clock.Now()
	for _, in := range o.backlog.of {
		longest = max(longest, in.longest(now))
	}
	return longest
}
