package selector

import (
	"context"
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
// anything to do. Expressions take turns; those that are not known to take long, and
// only did not fit into a budget, go first.
type background struct {
	step func(context.Context, *judgement) error
	// slow has the expressions that took long the last time.
	slow *lru.Cache

	mutex   sync.Mutex
	running bool
	works   map[string]*Work // by expression
	order   []*Work          // by who has waited longest for its turn
}

// Work is all that is to be done for one expression.
type Work struct {
	background *background
	expression string

	// Everything else needs the mutex of the background.

	// judgements are of different contents, which are those of queued.
	judgements []*judgement
	queued     map[*inventory.Content]bool
	costly     bool
	// slow and quick are set when a judgement took long, or did not.
	slow, quick bool
	// news is set when a verdict is there that those who wait have not heard of.
	news        bool
	asked, told time.Time
	waiting     map[int]func()
	tickets     int
	over        bool
}

func newBackground(step func(context.Context, *judgement) error) background {
	return background{step: step, slow: lru.New(maxCostly), works: make(map[string]*Work)}
}

// costly reports whether an expression is known to take long.
func (b *background) costly(expression string) bool {
	_, found := b.slow.Get(expression)
	return found
}

func (b *background) noteCostly(expression string) {
	b.slow.Add(expression, nil)
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if w := b.works[expression]; w != nil {
		w.costly = true
	}
}

// add has a judgement made unless it already waits for that. If there is too much to do,
// it is not accepted, and the work returned is what has to be done before it can be.
func (b *background) add(j *judgement) *Work {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	now := time.Now()
	w := b.works[j.expression]
	switch {
	case w == nil && len(b.order) >= maxWorks:
		return b.order[0]
	case w == nil:
		w = &Work{background: b, expression: j.expression, costly: b.costly(j.expression), told: now,
			queued: make(map[*inventory.Content]bool), waiting: make(map[int]func())}
		b.works[j.expression] = w
		b.order = append(b.order, w)
	}
	w.asked = now
	if content := j.slice.Content; !w.queued[content] && len(w.judgements) < maxJudgements {
		w.queued[content] = true
		w.judgements = append(w.judgements, j)
	}
	if !b.running {
		b.running = true
		go b.run()
	}
	return w
}

// run works until there is nothing left.
func (b *background) run() {
	for {
		w, j := b.take()
		if w == nil {
			return
		}
		start := time.Now()
		j.lookUp() // Somebody may have had the time for it.
		for !j.done() && !j.slice.Content.Gone() && time.Since(start) < turn {
			if err := b.step(context.Background(), j); err != nil {
				break // Cannot be: the context does not end.
			}
		}
		j.took += time.Since(start)
		if j.done() {
			j.keep()
		}
		for _, tell := range b.put(w, j) {
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
	next := max(0, slices.IndexFunc(b.order, func(w *Work) bool { return !w.costly }))
	w := b.order[next]
	b.order = append(slices.Delete(b.order, next, next+1), w)
	return w, w.judgements[0]
}

// put takes back what was taken. It returns whom to tell that more is known.
func (b *background) put(w *Work, j *judgement) []func() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	switch {
	case j.took > quickly:
		w.costly, w.slow = true, true
		b.slow.Add(w.expression, nil)
	case j.done():
		w.quick = true
	}
	w.news = w.news || j.done()
	w.judgements = slices.DeleteFunc(w.judgements, func(other *judgement) bool {
		unneeded := other.done() || other.slice.Content.Gone()
		if unneeded {
			delete(w.queued, other.slice.Content)
		}
		return unneeded
	})
	now := time.Now()
	switch {
	case len(w.judgements) == 0:
		if w.quick && !w.slow {
			b.slow.Remove(w.expression) // It was the load of the machine, or compiling.
		}
	case len(w.waiting) == 0 && now.Sub(w.asked) > dropAfter:
	case w.news && now.Sub(w.told) >= tellAfter:
		return w.listeners(now)
	default:
		return nil
	}
	w.over = true
	delete(b.works, w.expression)
	b.order = slices.DeleteFunc(b.order, func(other *Work) bool { return other == w })
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
