package selector

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/internal/memo"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// A Gradual is a Selection in progress: it judges each device when a caller asks about it. It suits callers
// that are usually content with the first devices of a pool and may never ask again. It is safe for
// concurrent use, and ignores Budgets.
type Gradual struct {
	evaluator *Evaluator
	pool      *inventory.NodePool
	set       Set
	known     *judged
}

// judged holds the verdicts so far of a set for the devices of a pool.
type judged struct {
	key       string
	mutex     sync.Mutex
	count     int        // number of the pool's devices
	devices   bitset.Set // devices already judged
	selection *Selection
}

// maxGradual limits the number of sets whose partial verdicts a pool keeps, because users choose expressions.
const maxGradual = 16

// judgedKey is the key of the partial verdicts in a pool.
type judgedKey struct{}

type judgedSets struct {
	mutex sync.Mutex
	known []*judged // few enough for a linear search
}

// Gradually returns a Gradual with the verdicts so far of a set for the devices of a pool.
func (e *Evaluator) Gradually(pool *inventory.NodePool, s Set) Gradual {
	sets := inventory.Cached(&pool.Derived, judgedKey{}, func() *judgedSets { return new(judgedSets) })
	return Gradual{evaluator: e, pool: pool, set: s, known: sets.of(s.text, len(pool.Devices))}
}

func (s *judgedSets) of(key string, devices int) *judged {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if i := s.index(key); i >= 0 {
		return s.known[i]
	}
	if len(s.known) >= maxGradual {
		s.known = nil
	}
	memory := make(bitset.Arena, 3*bitset.Words(devices))
	known := &judged{key: key, count: devices, devices: memory.New(devices)}
	known.selection = &Selection{Matches: memory.New(devices), Failed: memory.New(devices)}
	s.known = append(s.known, known)
	return known
}

func (s *judgedSets) index(key string) int {
	return slices.IndexFunc(s.known, func(j *judged) bool { return j.key == key })
}

func (s *judgedSets) forget(key string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if i := s.index(key); i >= 0 {
		s.known = slices.Delete(s.known, i, i+1)
	}
}

// Matches reports whether a device matches the set. The error is an *Error, or wraps the cause of the context's end.
func (g Gradual) Matches(ctx context.Context, device int) (bool, error) {
	matches, found, failure := g.known.verdict(device)
	if !found {
		var err error
		if matches, failure, err = g.evaluate(ctx, device); err != nil {
			return false, err
		}
		g.known.add(device, matches, failure)
	}
	if failure != nil {
		return false, g.set.errorOf(g.pool, device, *failure)
	}
	return matches, nil
}

// Complete judges all devices that were not judged yet. It fails only if the context ends.
func (g Gradual) Complete(ctx context.Context) (*Selection, error) {
	for device := range g.pool.Devices {
		if _, found, _ := g.known.verdict(device); found {
			continue
		}
		matches, failure, err := g.evaluate(ctx, device)
		if err != nil {
			return nil, err
		}
		g.known.add(device, matches, failure)
	}
	inventory.Cached(&g.pool.Derived, judgedKey{}, func() *judgedSets { return new(judgedSets) }).forget(g.set.text)
	return g.evaluator.remember(g.pool, g.set, g.known.selection), nil
}

// remember stores a selection that was not combined from those of single expressions.
func (e *Evaluator) remember(pool *inventory.NodePool, s Set, selection *Selection) *Selection {
	sheet := memo.Open[*Selection](e.memory, s.question())
	if len(selection.failures) > 0 {
		own := *selection
		own.failures = slices.Clone(selection.failures)
		for i := range own.failures {
			own.failures[i].err = sheet.Error(own.failures[i].err, manyErrors)
		}
		selection = &own
	}
	return sheet.Put(&pool.Content.Subject, selection)
}

// Selected returns the remembered Selection of a set for a pool, or nil if not all devices were judged before.
func (e *Evaluator) Selected(pool *inventory.NodePool, s Set) *Selection {
	selection, _ := s.selections().Get(e.memory, &pool.Content.Subject)
	return selection
}

func (j *judged) verdict(device int) (matches, found bool, f *failure) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if !j.devices.Has(device) {
		return false, false, nil
	}
	if j.selection.Failed.Has(device) {
		failed := j.selection.failureOf(device)
		return false, true, &failed
	}
	return j.selection.Matches.Has(device), true, nil
}

func (j *judged) add(device int, matches bool, f *failure) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	switch {
	case j.devices.Has(device):
		return // Another goroutine was faster. After the last device, nothing changes any more.
	case f != nil:
		j.selection.fail(device, j.count, *f)
	case matches:
		j.selection.Matches.Add(device)
	}
	j.devices.Add(device)
}

// evaluate judges a device, as Select does. It fails only if the context ends.
func (g Gradual) evaluate(ctx context.Context, position int) (bool, *failure, error) {
	published := g.pool.Devices[position]
	device := deviceOf(published.Slice, published.Device)
	for i := range g.set.size() {
		matches, err := g.evaluator.verdict(ctx, &lazyProgram{text: g.set.expression(i)}, &device)
		switch {
		case ctx.Err() != nil:
			return false, nil, fmt.Errorf("evaluating selectors for slice %s: %w", published.Slice.Name, context.Cause(ctx))
		case err != nil:
			return false, &failure{i, err}, nil
		case !matches:
			return false, nil, nil
		}
	}
	return true, nil, nil
}
