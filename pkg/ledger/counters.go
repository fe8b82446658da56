package ledger

import (
	"slices"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Remaining holds the amounts that are left of a pool's counters (KEP-4815). It is immutable.
type Remaining struct {
	// Amounts holds the amount left of each counter, by its number (see inventory.Counters).
	Amounts []quantity.Amount
	// Overdrawn is true if any counter is negative: a driver published less than was already in
	// use. Until that is resolved, no device that consumes counters can be allocated from the pool.
	Overdrawn bool
	negative  int // number of negative counters
	// Unknown lists, by name, the devices in use that are no longer published and whose counter
	// consumption is not known (see Follow). A pool with such devices counts as overdrawn.
	Unknown []string
	// formerGroups is set if a device in use had compatibility groups in a version that is no
	// longer published.
	formerGroups bool
}

// Blocked reports whether no device that consumes counters can be allocated from the pool.
func (r *Remaining) Blocked() bool { return r.Overdrawn || len(r.Unknown) > 0 }

// unusedKey is the cache key of the Remaining of a pool without devices in use.
type unusedKey struct{}

// Remaining returns the amounts left of the pool's counters. It subtracts the consumption of all
// devices in use, on all nodes, including consumption that slices no longer publish (see Follow).
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

func negatives(a quantity.Amount) int {
	if a.IsNegative() {
		return 1
	}
	return 0
}

// exhaustedKey is the cache key of the Exhausted set of a pool without devices in use.
type exhaustedKey struct{}

// Exhausted returns the devices of the pool, by position, that need more of a counter than is left.
// Devices with shares in use are not in the set: another share consumes no more counters. The set
// is shared and must not be changed.
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

func take(left []quantity.Amount, draws []inventory.Draw) {
	for _, draw := range draws {
		draw.TakeFrom(left)
	}
}
