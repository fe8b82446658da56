package allocationlog

import (
	"cmp"
	"maps"
	"math"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// usedLimit is a limit of the ledger and the claims that use it. The limit is a counter of a pool,
// a capacity of a device, or the compatibility groups of a counter set.
type usedLimit struct {
	// room is the full amount, as if unused.
	room     ledger.Room
	resource string // as in Conflict
	// by is the first device of the claim in question that consumes from the limit. For a capacity,
	// it is the device that has the capacity.
	by    *use
	units []unit
}

// unit consumes from a limit as long as it is in use. For a counter it is a device, which consumes
// once, however many claims share it. For a capacity it is a share.
type unit struct {
	need  ledger.Need
	users []*allocation
}

// cause returns the cause of a conflict about the limit.
func (l *usedLimit) cause() Cause {
	return [...]Cause{ledger.CounterLimit: Counter, ledger.CompatibilityLimit: Incompatible, ledger.CapacityLimit: Capacity}[l.room.Kind]
}

// usedUp returns the lowest rank for which there is too little, together with all lower ranks.
// overdrawn is false if there is enough for all.
func (l *usedLimit) usedUp(rank func(*allocation) uint64) (from uint64, overdrawn bool) {
	if _, overdrawn := l.exceededAt(l.units); !overdrawn {
		return 0, false // The usual case, without sorting.
	}
	lowest := func(u unit) uint64 {
		low := uint64(math.MaxUint64)
		for _, user := range u.users {
			low = min(low, rank(user))
		}
		return low
	}
	sorted := slices.Clone(l.units)
	slices.SortStableFunc(sorted, func(a, b unit) int { return cmp.Compare(lowest(a), lowest(b)) })
	at, _ := l.exceededAt(sorted)
	return lowest(sorted[at]), true
}

// exceededAt returns the first unit for which those before it left too little.
func (l *usedLimit) exceededAt(units []unit) (at int, exceeded bool) {
	room := l.room
	at = slices.IndexFunc(units, func(u unit) bool { return !room.Take(u.need) })
	return at, at >= 0
}

// users yields all allocations that use the limit, each once.
func (l *usedLimit) users() func(func(*allocation) bool) {
	return func(yield func(*allocation) bool) {
		seen := sets.New[*allocation]()
		for _, u := range l.units {
			for _, user := range u.users {
				if !seen.Has(user) && !yield(user) {
					return
				}
				seen.Insert(user)
			}
		}
	}
}

// compare finds the claims that conflict with the allocation over a limit. If there is too little
// for the allocation and all that are not known to be later, it has lost and conflicts with these.
// It also conflicts with later ones that have lost in the same way.
func (f *finder) compare(l *usedLimit) {
	from, overdrawn := l.usedUp(func(a *allocation) uint64 { return a.written.First })
	if !overdrawn {
		return
	}
	lost := f.own.written.Last >= from
	for other := range l.users() {
		if other == f.own {
			continue
		}
		relation := relationOf(other.written, f.own.written)
		if lost && relation != Later || relation != Earlier && other.written.Last >= from {
			f.add(other, l.cause(), l.by, l.resource, lost)
		}
	}
}

// drawn returns the counters and compatibility limits of a pool with their users. It returns those
// that the given allocation uses, or all if none is given.
func (x *index) drawn(pool *inventory.NodePool, of *allocation) []*usedLimit {
	limits, used := ledger.LimitsOf(pool), make(map[ledger.Limit]*usedLimit)
	begin := func(limit ledger.Limit, by *use) {
		if used[limit] == nil {
			used[limit] = &usedLimit{room: limits.Room(limit), resource: limits.Name(limit), by: by}
		}
	}
	if of != nil {
		for u := range of.usesIn(pool.Key) {
			for limit, need := range limits.Drawn(u.device.Value()) {
				if !limit.IsNothing(need) {
					begin(limit, u)
				}
			}
		}
		if len(used) == 0 {
			return nil
		}
	}
	for device, holdings := range x.pools[pool.Key] {
		var users []*allocation
		for limit, need := range limits.Drawn(device.Value()) {
			if limit.IsNothing(need) {
				continue
			}
			if of == nil {
				begin(limit, nil)
			}
			l := used[limit]
			if l == nil {
				continue
			}
			if users == nil {
				users = usersOf(holdings)
			}
			l.units = append(l.units, unit{need, users})
		}
	}
	return sortedLimits(used)
}

// capacities returns the capacities of a shared device with their users. It returns those that the
// given share consumes, or all that are in use if none is given.
func (x *index) capacities(device *inventory.Device, by *use, of *share) []*usedLimit {
	used := make(map[ledger.Limit]*usedLimit)
	for _, h := range x.pools[by.pool][by.device] {
		if h.share == nil {
			continue
		}
		for _, c := range h.share.consumed {
			room, found := ledger.CapacityOf(device, c.capacity)
			need := ledger.Need{Amount: c.amount}
			if !found || room.IsNothing(need) || of != nil && !of.consumes(c.capacity) {
				continue
			}
			if used[room.Limit] == nil {
				used[room.Limit] = &usedLimit{room: room, resource: string(c.capacity), by: by}
			}
			l := used[room.Limit]
			l.units = append(l.units, unit{need, []*allocation{h.by}})
		}
	}
	return sortedLimits(used)
}

// consumes reports whether the share consumes a capacity.
func (s *share) consumes(capacity resourceapi.QualifiedName) bool {
	return slices.ContainsFunc(s.consumed, func(own consumption) bool {
		return own.capacity == capacity && own.amount != (quantity.Amount{})
	})
}

// sortedLimits returns the limits in a fixed order.
func sortedLimits(used map[ledger.Limit]*usedLimit) []*usedLimit {
	return slices.SortedFunc(maps.Values(used), func(a, b *usedLimit) int {
		return cmp.Or(cmp.Compare(a.room.Kind, b.room.Kind), cmp.Compare(a.resource, b.resource))
	})
}
