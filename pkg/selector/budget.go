package selector

import (
	"context"
	"sync"
	"time"
)

// quickly limits the wait for one expression on the devices of one slice. Ordinary expressions take a few
// milliseconds for a slice at the API's limits, and one or two more for compilation.
const quickly = 20 * time.Millisecond

// A Budget limits the time that a caller waits for expressions to be evaluated. Concurrent evaluations count
// once, cached verdicts count nothing. It is safe for concurrent use.
type Budget struct {
	limit, period time.Duration
	tenant        string

	mutex sync.Mutex
	spent time.Duration
	// waiting is the number of evaluations in progress; since is the start of the earliest wait.
	waiting int
	since   time.Time
	renewed time.Time
}

// NewBudget returns a budget that is renewed after each period, or never if the period is 0.
func NewBudget(limit, period time.Duration) *Budget {
	return &Budget{limit: limit, period: period}
}

// For assigns the budget to a tenant and returns it. Tenants take turns in the background.
func (b *Budget) For(tenant string) *Budget {
	b.tenant = tenant
	return b
}

type budgetKey struct{}

// WithBudget returns a context that limits evaluations to the budget. Evaluations that exceed it return a Pending.
func WithBudget(ctx context.Context, budget *Budget) context.Context {
	return context.WithValue(ctx, budgetKey{}, budget)
}

// budgetOf returns the budget of a context, or nil if it has none.
func budgetOf(ctx context.Context) *Budget {
	budget, _ := ctx.Value(budgetKey{}).(*Budget)
	return budget
}

// begin returns the remaining time. If that is positive, the caller must call end.
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
