package selector

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/lru"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

const (
	// turn limits how long the background works on one expression while others wait. A single device that
	// takes longer exceeds it.
	turn = quickly
	// tellAfter is the minimum interval between notifications of partial results.
	tellAfter = time.Second
	// dropAfter limits the evaluation of an expression that no caller asks about. It exceeds the time that
	// pods wait between two attempts.
	dropAfter = time.Minute
	// The queue of the background is bounded: maxWorks expressions, and maxJudgements slices for each.
	// Callers ask again about everything beyond that.
	maxWorks      = 100
	maxJudgements = 1000
	// maxCostly limits how many slow expressions are remembered.
	maxCostly = 1000
)

// background evaluates slow questions on one goroutine, which runs while there is work. Tenants share its
// time equally, regardless of how many questions each has. Questions of a tenant take turns; those not known
// to be slow, which only exceeded a budget, go first.
type background struct {
	evaluator *Evaluator
	// slow holds the hashes of questions that took long the last time.
	slow *lru.Cache

	mutex   sync.Mutex
	running bool
	works   map[question]*Work
	order   []*Work // the work that has waited longest for its turn comes first
	untold  []func()
	// spent is the time used by each tenant that has works. A new tenant starts with the minimum of the others.
	spent map[string]time.Duration
}

// Work is all pending work for one question.
type Work struct {
	background *background
	question   question

	// The mutex of the background guards all further fields.

	tenant string // whose share of the time the work uses

	// slices have different contents, which are the keys of queued. begun is the judgement of the first
	// slice, nil before it begins.
	slices []*inventory.Slice
	queued map[*inventory.Content]bool
	begun  *judgement
	costly bool
	// slow and quick record whether any judgement took long, and whether any did not.
	slow, quick bool
	// news is set when there is a verdict that waiting callers were not notified of.
	news        bool
	asked, told time.Time
	waiting     map[int]func()
	tickets     int
	over        bool
}

func newBackground(e *Evaluator) background {
	return background{evaluator: e, slow: lru.New(maxCostly), works: make(map[question]*Work), spent: make(map[string]time.Duration)}
}

// costly reports whether a question is known to be slow.
func (b *background) costly(q question) bool {
	_, found := b.slow.Get(q.hash())
	return found
}

// hash returns a short stand-in for a question, which may be long because users write it. A collision does no harm.
func (q question) hash() uint64 { return maphash.Comparable(seed, q) }

func (b *background) noteCostly(q question) {
	b.slow.Add(q.hash(), nil)
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if w := b.works[q]; w != nil {
		w.costly = true
	}
}

// add queues a tenant's question about a slice, unless it is queued already. If the queue is full, add
// rejects the question and returns the work that must finish before the caller asks again.
func (b *background) add(tenant string, q question, slice *inventory.Slice) *Work {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	now := time.Now()
	w := b.works[q]
	if w == nil {
		costly := b.costly(q)
		if len(b.order) >= maxWorks && !b.displace(tenant, costly, now) {
			return b.order[max(0, slices.IndexFunc(b.order, func(w *Work) bool { return w.tenant == tenant }))]
		}
		b.enter(tenant)
		w = &Work{background: b, tenant: tenant, question: q, costly: costly, told: now,
			queued: make(map[*inventory.Content]bool), waiting: make(map[int]func())}
		b.works[q] = w
		b.order = append(b.order, w)
	} else if w.tenant != tenant {
		if b.enter(tenant); b.spent[tenant] < b.spent[w.tenant] {
			w.tenant, tenant = tenant, w.tenant
		}
		b.leave(tenant)
	}
	b.hold(q) // Only accepted questions are held, so their number is bounded.
	w.asked = now
	if content := slice.Content; !w.queued[content] && len(w.slices) < maxJudgements {
		w.queued[content] = true
		w.slices = append(w.slices, slice)
	}
	if !b.running {
		b.running = true
		go b.run()
	}
	return w
}

// hold keeps the answers to a question in memory, because waiting callers must find them when they are notified.
func (b *background) hold(q question) { q.sheet(b.evaluator.memory).Hold(dropAfter) }

// displace makes room for a question of a tenant. It ends a work of the tenant with the most works, if that
// has more than the asking tenant would have. For a question not known to be slow it may also end any slow
// work. It reports whether there is room.
func (b *background) displace(tenant string, costly bool, now time.Time) bool {
	counts := make(map[string]int)
	for _, w := range b.order {
		counts[w.tenant]++
	}
	var victim *Work
	for _, w := range b.order {
		allowed := counts[w.tenant] > counts[tenant]+1 || !costly && w.costly
		if allowed && (victim == nil || counts[w.tenant] > counts[victim.tenant] ||
			counts[w.tenant] == counts[victim.tenant] && (w.costly || !victim.costly)) {
			victim = w
		}
	}
	if victim == nil {
		return false
	}
	b.untold = append(b.untold, b.end(victim, now)...)
	return true
}

// enter adds a tenant to those that share the time.
func (b *background) enter(tenant string) {
	if _, known := b.spent[tenant]; known {
		return
	}
	least := time.Duration(-1)
	for _, spent := range b.spent {
		if least < 0 || spent < least {
			least = spent
		}
	}
	b.spent[tenant] = max(0, least)
}

// leave removes a tenant without works from those that share the time.
func (b *background) leave(tenant string) {
	if !slices.ContainsFunc(b.order, func(w *Work) bool { return w.tenant == tenant }) {
		delete(b.spent, tenant)
	}
}

// run works until the queue is empty.
func (b *background) run() {
	for {
		w, j := b.take()
		if w == nil {
			return
		}
		start := time.Now()
		known := b.evaluator.lookUp(j) // Another caller may have answered it meanwhile.
		for !known && !j.slice.Content.Gone() && time.Since(start) < turn {
			if err := b.evaluator.step(context.Background(), j); err != nil {
				break // Impossible: the context does not end.
			}
			if j.done() {
				b.evaluator.keep(j)
				known = true
			}
		}
		took := time.Since(start)
		j.took += took
		b.hold(j.question)
		for _, tell := range b.put(w, j, known, took) {
			tell()
		}
	}
}

// take returns the next work and its judgement, or nil if there is none.
func (b *background) take() (*Work, *judgement) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if len(b.order) == 0 {
		b.running = false
		return nil, nil
	}
	next := 0
	for i, w := range b.order {
		before := b.order[next]
		if own, least := b.spent[w.tenant], b.spent[before.tenant]; own < least || w.tenant == before.tenant && before.costly && !w.costly {
			next = i
		}
	}
	w := b.order[next]
	b.order = append(slices.Delete(b.order, next, next+1), w)
	if w.begun == nil {
		w.begun = &judgement{question: w.question, slice: w.slices[0]}
	}
	return w, w.begun
}

// put takes back the judgement that take returned, and returns the listeners to notify.
func (b *background) put(w *Work, j *judgement, known bool, took time.Duration) []func() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if !w.over {
		b.spent[w.tenant] += took
	}
	tell := b.untold
	b.untold = nil
	switch {
	case j.took > quickly:
		w.costly, w.slow = true, true
		b.slow.Add(w.question.hash(), nil)
	case known:
		w.quick = true
	}
	w.news = w.news || known
	if known || j.slice.Content.Gone() {
		w.begun = nil
	}
	w.slices = slices.DeleteFunc(w.slices, func(slice *inventory.Slice) bool {
		unneeded := known && slice == j.slice || slice.Content.Gone()
		if unneeded {
			delete(w.queued, slice.Content)
		}
		return unneeded
	})
	now := time.Now()
	switch {
	case w.over:
		return tell // It was displaced meanwhile.
	case len(w.slices) == 0:
		if w.quick && !w.slow {
			b.slow.Remove(w.question.hash()) // The load of the machine or the compilation caused the delay.
		}
	case len(w.waiting) == 0 && now.Sub(w.asked) > dropAfter:
	case w.news && now.Sub(w.told) >= tellAfter:
		return append(tell, w.listeners(now)...)
	default:
		return tell
	}
	return append(tell, b.end(w, now)...)
}

// end removes a work, and returns the listeners to notify. The caller holds the mutex.
func (b *background) end(w *Work, now time.Time) []func() {
	w.over = true
	w.question.sheet(b.evaluator.memory).Finish()
	delete(b.works, w.question)
	b.order = slices.DeleteFunc(b.order, func(other *Work) bool { return other == w })
	b.leave(w.tenant)
	return w.listeners(now)
}

// listeners returns the functions of all waiting callers, and removes them.
func (w *Work) listeners(now time.Time) []func() {
	list := make([]func(), 0, len(w.waiting))
	for _, tell := range w.waiting {
		list = append(list, tell)
	}
	clear(w.waiting)
	w.news, w.told = false, now
	return list
}

// Notify registers a function that is called once: when all work is done, or earlier when part of it is done
// or the work is dropped. It reports false, without registering, if all is done already. leave unregisters
// the function; work without listeners is dropped eventually.
func (w *Work) Notify(tell func()) (leave func(), ok bool) {
	w.background.mutex.Lock()
	defer w.background.mutex.Unlock()
	if w.over {
		return func() {}, false
	}
	ticket := w.tickets
	w.tickets++
	w.waiting[ticket] = tell
	return func() {
		w.background.mutex.Lock()
		defer w.background.mutex.Unlock()
		delete(w.waiting, ticket)
	}, true
}
