package ledger

import (
	"slices"
	"sync/atomic"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// projection caches the value last derived for a layout.
type projection[T any] struct {
	of    *inventory.Layout
	value T
}

func project[T any](cached *atomic.Pointer[projection[T]], layout *inventory.Layout, derive func() T) T {
	if last := cached.Load(); last != nil && last.of == layout {
		return last.value
	}
	value := derive()
	cached.Store(&projection[T]{layout, value})
	return value
}

// fewDevices is the size of a layout up to which values are derived from scratch instead of carried
// over.
const fewDevices = 64

// carry updates the values derived from the usage before for the touched devices. It does not look
// at the other devices, which are many in a large pool.
func (u *PoolUsage) carry(before *PoolUsage, touched []string) {
	u.carrySet(&u.occupied, &before.occupied, touched, isUsed)
	u.carrySet(&u.held, &before.held, touched, isHeld)
	u.carrySet(&u.shared, &before.shared, touched, isShared)
	var toggled []string // devices that begin or end to consume counters
	for _, name := range touched {
		if u.Uses(name) != before.Uses(name) {
			toggled = append(toggled, name)
		}
	}
	if u.carryRemaining(before, toggled) {
		u.carryExhausted(before, touched, toggled)
	}
}

func (u *PoolUsage) carrySet(to, from *atomic.Pointer[projection[bitset.Set]], touched []string, has func(DeviceUsage) bool) {
	last := from.Load()
	if last == nil || len(last.of.Devices) <= fewDevices {
		return
	}
	set, own := last.value, false
	for _, name := range touched {
		position, found := last.of.Position(name)
		if !found || set.Has(position) == has(u.Device(name)) {
			continue
		}
		if !own {
			set, own = set.Clone(), true
		}
		setMember(set, position, !set.Has(position))
	}
	to.Store(&projection[bitset.Set]{last.of, set})
}

func setMember(set bitset.Set, position int, member bool) {
	if member {
		set.Add(position)
	} else {
		set.Remove(position)
	}
}

// carryRemaining carries over the remaining counters. It reports whether they are known and the
// pool is blocked neither before nor after: only then do a device's own counters alone decide
// whether it is exhausted.
func (u *PoolUsage) carryRemaining(before *PoolUsage, toggled []string) bool {
	last := before.remaining.Load()
	if last == nil || len(last.of.Devices) <= fewDevices || !last.of.Unique() {
		return false
	}
	whole, remaining := last.of, last.value
	for _, name := range toggled {
		position, found := whole.Position(name)
		if u.follows && (!found || u.Device(name).drawn != nil || before.Device(name).drawn != nil) {
			return false
		}
		draws := whole.Counters.Draws(position)
		if !found || len(draws) == 0 {
			continue
		}
		if remaining == last.value {
			changed := *remaining
			changed.Amounts = slices.Clone(remaining.Amounts)
			remaining = &changed
		}
		remaining.change(draws, u.Uses(name))
	}
	u.remaining.Store(&projection[*Remaining]{whole, remaining})
	return !last.value.Blocked() && !remaining.Blocked()
}

// change subtracts the consumption of a device, or returns it.
func (r *Remaining) change(draws []inventory.Draw, used bool) {
	for _, draw := range draws {
		for number := range draw.All() {
			r.negative -= negatives(r.Amounts[number])
		}
		if used {
			draw.TakeFrom(r.Amounts)
		} else {
			draw.ReturnTo(r.Amounts)
		}
		for number := range draw.All() {
			r.negative += negatives(r.Amounts[number])
		}
	}
	r.Overdrawn = r.negative > 0
}

// carryExhausted judges again the touched devices, and the devices that consume from the same
// counter sets as the toggled ones.
func (u *PoolUsage) carryExhausted(before *PoolUsage, touched, toggled []string) {
	last := before.exhausted.Load()
	remaining := u.remaining.Load()
	if last == nil || len(last.of.Devices) <= fewDevices || last.of.Whole() != remaining.of {
		return
	}
	layout, set := last.of, last.value.Clone()
	judge := func(position int) {
		setMember(set, position, u.isExhausted(layout, position, remaining.value))
	}
	for _, name := range touched {
		if position, found := layout.Position(name); found && layout.Partitions.Has(position) {
			judge(position)
		}
	}
	for _, name := range toggled {
		position, found := remaining.of.Position(name)
		if !found {
			continue
		}
		for _, draw := range remaining.of.Counters.Draws(position) {
			for _, position := range layout.Drawing(draw.Set) {
				judge(position)
			}
		}
	}
	u.exhausted.Store(&projection[bitset.Set]{layout, set})
}
