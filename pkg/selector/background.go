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
	// turn is how long the background stays with one expression while others wait. It
	// is longer if a single device takes longer.
	turn = quickly
	// tellAfter is how often those who wait for an expression are told that more is known.
	tellAfter = time.Second
	// dropAfter is for how long an expression is evaluated that nobody asks for any more.
	// It is longer than pods wait between two attempts.
	dropAfter = time.Minute
	// What waits in the background is bounded: so many expressions, and so many slices for
	// each. What does not fit is asked for again.
	maxWorks      = 100
	maxJudgements = 1000
	// maxCostly is how many expressions are remembered because they take long.
	maxCostly = 1000
)

// background evaluates what takes long, on one goroutine that runs while there is
// anything to do. Tenants share its time, however many questions each of them has. Questions of a tenant take
// turns; those that are not known to take long, and only did not fit into a budget, go first.
type background struct {
	evaluator *Evaluator
	// slow has hashes of the questions that took long the last time.
	slow *lru.Cache

	mutex   sync.Mutex
	running bool
	works   map[question]*Work
	order   []*Work // by who has waited longest for its turn
	untold  []func()
	// spent is what each tenant has had of the time, of those with works. Who comes begins with the least.
	spent map[string]time.Duration
}

// Work is all that is to be done for one question.
type Work struct {
	background *background
	question   question

	// Everything else needs the mutex of the background.

	tenant string // who pays

	// slices are of different contents, which are those of queued; begun is the judgement
	// of the first one, nil if it was not begun yet.
	slices []*inventory.Slice
	queued map[*inventory.Content]bool
	begun  *judgement
	costly bool
	// slow and quick are set when a judgement took long, or did not.
	slow, quick bool
	// news is set when a verdict is there that those who wait have not heard of.
	news        bool
	asked, told time.Time
	waiting     map[int]func()
	tickets     int
	over        bool
}

func newBackground(e *Evaluator) background {
	return background{evaluator: e, slow: lru.New(maxCostly), works: make(map[question]*Work), spent: make(map[string]time.Duration)}
}

// costly reports whether a question is known to take long.
func (b *background) costly(q question) bool {
	_, found := b.slow.Get(q.hash())
	return found
}

// hash stands for a question where a mistake does no harm: users can write long ones.
func (q question) hash() uint64 { return maphash.Comparable(seed, q) }

func (b *background) noteCostly(q question) {
	b.slow.Add(q.hash(), nil)
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if w := b.works[q]; w != nil {
		w.costly = true
	}
}

// add has a question of a tenant answered for a slice unless that already waits. If there is too much
// to do, it is not accepted, and the work returned is what has to be done before it can be.
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
	b.hold(q) // Only what is accepted: there are few of these.
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

// hold keeps what is known about a question: those who wait for it must find it when they
// are told.
func (b *background) hold(q question) { q.sheet(b.evaluator.memory).Hold(dropAfter) }

// displace makes room for a question of a tenant: at the expense of the one who has the most, and more than that tenant would
// have; for one that is not known to take long also at the expense of any that takes long. It reports false if there is no room.
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

// enter has a tenant take part in the sharing of time.
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

// leave forgets what a tenant has had if nothing of it is left.
func (b *background) leave(tenant string) {
	if !slices.ContainsFunc(b.order, func(w *Work) bool { return w.tenant == tenant }) {
		delete(b.spent, tenant)
	}
}

// run works until there is nothing left.
func (b *background) run() {
	for {
		w, j := b.take()
		if w == nil {
			return
		}
		start := time.Now()
		known := b.evaluator.lookUp(j) // Somebody may have had the time for it.
		for !known && !j.slice.Content.Gone() && time.Since(start) < turn {
			if err := b.evaluator.step(context.Background(), j); err != nil {
				break // Cannot be: the context does not end.
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

// take returns what is to be done next, nil if there is nothing.
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

// put undoes a take. It returns whom to tell that more is known.
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
			b.slow.Remove(w.question.hash()) // It was the load of the machine, or compiling.
		}
	case len(w.waiting) == 0 && now.Sub(w.asked) > dropAfter:
	case w.news && now.Sub(w.told) >= tellAfter:
		return append(tell, w.listeners(now)...)
	default:
		return tell
	}
	return append(tell, b.end(w, now)...)
}

// end forgets a work, and returns whom to tell. It needs the mutex.
func (b *background) end(w *Work, now time.Time) []func() {
	w.over = true
	w.question.sheet(b.evaluator.memory).Finish()
	delete(b.works, w.question)
	b.order = slices.DeleteFunc(b.order, func(other *Work) bool { return other == w })
	b.leave(w.tenant)
	return w.listeners(now)
}

// listeners returns those who wait and forgets them.
func (w *Work) listeners(now time.Time) []func() {
	list := make([]func(), 0, len(w.waiting))
	for _, tell := range w.waiting {
		list = append(list, tell)
	}
	clear(w.waiting)
	w.news, w.told = false, now
	return list
}

// Notify has the function called once when all is done, or from time to time when part
// of it is. It reports false if all is done already; then the function is not called.
// leave takes the function back; work for which nobody waits is not finished.
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
