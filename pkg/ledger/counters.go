package ledger

import (
	"slices"

	"github.com/quartermaster-dra/quartermaster/internal/amount"
	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Remaining is what is left of a pool's counters (KEP-4815). It is immutable.
type Remaining struct {
	// Amounts are by number of the counter, see inventory.Counters.
	Amounts []amount.Amount
	// Overdrawn is true if any counter is negative: a driver published less than was
	// already in use. Nothing that draws on counters can be allocated from the pool
	// until that is settled.
	Overdrawn bool
	negative  int // how many counters are
	// Unknown are the devices in use, by name, that are not published any more and of which nobody knows what
	// they draw, see Follow. As long as there are any, it is as if the pool was overdrawn.
	Unknown []string
	// formerGroups is set if something that is not published any more had compatibility groups.
	formerGroups bool
}

// Blocked reports whether nothing that draws on counters can be allocated from the pool.
func (r *Remaining) Blocked() bool { return r.Overdrawn || len(r.Unknown) > 0 }

// unusedKey is where a pool keeps what is left if nothing is in use.
type unusedKey struct{}

// Remaining returns what is left of the pool's counters after all devices in use
// have drawn from them, whoever uses them and for whichever node, and as much as they
// drew when that was published, see Follow.
func (u *PoolUsage) Remaining(pool *inventory.NodePool) *Remaining {
	derive := func() *Remaining { return u.remainingOf(pool) }
	if u.Len() == 0 {
		return inventory.Cached(&pool.Derived, unusedKey{}, derive)
	}
	if pool.Whole() == nil {
		return derive()
	}
	return project(&u.remaining, pool.Whole(), derive)
}

func (u *PoolUsage) remainingOf(pool *inventory.NodePool) *Remaining {
	if pool.Counters == nil {
		return &Remaining{}
	}
	whole := pool.Whole()
	left := slices.Clone(whole.Counters.Published)
	for i := range whole.Partitions.All() {
		if u.Uses(whole.Devices[i].Name) {
			take(left, whole.Counters.Draws(i))
		}
	}
	remaining := &Remaining{Amounts: left}
	u.takeFormer(pool, remaining)
	for _, amount := range left {
		remaining.negative += negatives(amount)
	}
	remaining.Overdrawn = remaining.negative > 0
	return remaining
}

func negatives(a amount.Amount) int {
	if a.IsNegative() {
		return 1
	}
	return 0
}

// exhaustedKey is where a pool keeps Exhausted if nothing is in use.
type exhaustedKey struct{}

// Exhausted returns the devices of the pool (by position) for which too little is
// left of a counter. Devices of which somebody has a share are not among them: one
// more share draws nothing. The set is shared and must not be changed.
func (u *PoolUsage) Exhausted(pool *inventory.NodePool) bitset.Set {
	if pool.Counters == nil || pool.Partitions.Empty() {
		return nil
	}
	derive := func() bitset.Set { return u.exhaustedOf(pool) }
	if u.Len() == 0 {
		return inventory.Cached(&pool.Derived, exhaustedKey{}, derive)
	}
	return project(&u.exhausted, pool.Layout, derive)
}

func (u *PoolUsage) exhaustedOf(pool *inventory.NodePool) bitset.Set {
	set, remaining := bitset.New(len(pool.Devices)), u.Remaining(pool)
	for i := range pool.Partitions.All() {
		if u.isExhausted(pool.Layout, i, remaining) {
			set.Add(i)
		}
	}
	return set
}

func (u *PoolUsage) isExhausted(layout *inventory.Layout, position int, remaining *Remaining) bool {
	if len(u.Device(layout.Devices[position].Name).Shares) > 0 {
		return false
	}
	covered := func(d inventory.Draw) bool { return d.CoveredBy(remaining.Amounts) }
	return remaining.Blocked() || !all(layout.Counters.Draws(position), covered)
}

func all[T any](list []T, holds func(T) bool) bool {
	return !slices.ContainsFunc(list, func(t T) bool { return !holds(t) })
}

func take(left []amount.Amount, draws []inventory.Draw) {
	for _, draw := range draws {
		draw.TakeFrom(left)
	}
}
