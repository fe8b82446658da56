package selector

import (
	"context"
	"sync"
	"time"
)

// quickly is how long anybody waits for one expression on the devices of one slice.
// Ordinary expressions take a few milliseconds for a slice at the API's limits, and
// one or two more to be compiled.
const quickly = 20 * time.Millisecond

// Budget is how long somebody may be kept waiting for expressions to be evaluated. What
// goes on at the same time counts once, and what is cached counts nothing. It is safe
// for concurrent use.
type Budget struct {
	limit, period time.Duration
	tenant        string

	mutex sync.Mutex
	spent time.Duration
	// waiting is how many evaluations are waited for, since is since when there are any.
	waiting int
	since   time.Time
	renewed time.Time
}

// NewBudget returns a budget that is renewed after each period, or if that is 0 never.
func NewBudget(limit, period time.Duration) *Budget {
	return &Budget{limit: limit, period: period}
}

// For returns the budget as that of a tenant: what is left to the background takes turns with what other tenants have there.
func (b *Budget) For(tenant string) *Budget {
	b.tenant = tenant
	return b
}

type budgetKey struct{}

// WithBudget returns a context with which evaluations stay within the budget: those
// that do not are Pending.
func WithBudget(ctx context.Context, budget *Budget) context.Context {
	return context.WithValue(ctx, budgetKey{}, budget)
}

// budgetOf returns the budget of a context, nil if it has none.
func budgetOf(ctx context.Context) *Budget {
	budget, _ := ctx.Value(budgetKey{}).(*Budget)
	return budget
}

// begin returns how much is left. If that is anything, it must be followed by end.
func (b *Budget) begin() time.Duration {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	now := time.Now()
	if b.waiting == 0 && b.period > 0 && now.Sub(b.renewed) >= b.period {
		b.spent, b.renewed = 0, now
	}
	left := b.limit - b.spent
	if b.waiting > 0 {
		left -= now.Sub(b.since)
	}
	if left <= 0 {
		return 0
	}
	if b.waiting == 0 {
		b.since = now
	}
	b.waiting++
	return left
}

func (b *Budget) end() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.waiting--
	if b.waiting == 0 {
		b.spent += time.Since(b.since)
	}
}
