package claimlog

import (
	"cmp"
	"maps"
	"math"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/quartermaster-dra/quartermaster/internal/amount"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// supply is something of which there is a limited amount, and who draws from it: a
// counter of a pool, or a capacity of a device. What compatibility groups limit is a
// supply as well: which devices draw from a counter set at the same time.
type supply struct {
	// room is what there is of it as long as nobody draws.
	room     ledger.Room
	resource string // as in Conflict
	// by is the first device that draws from it, of the claim that is asked about; of a
	// capacity, the device that has it.
	by    *use
	units []unit
}

// unit needs something as long as anybody uses it. For a counter it is a device: it draws
// once, however many claims share it. For a capacity it is a share.
type unit struct {
	need  ledger.Need
	users []*allocation
}

// cause is why claims are in conflict if there is too little of it.
func (s *supply) cause() Cause {
	return [...]Cause{ledger.CounterLimit: Counter, ledger.GroupsLimit: Incompatible, ledger.CapacityLimit: Capacity}[s.room.Kind]
}

// usedUp returns from which rank on there is too little: for an allocation of that rank or a
// higher one together with all of lower ranks. It says false if there is enough for all.
func (s *supply) usedUp(rank func(*allocation) uint64) (from uint64, overdrawn bool) {
	if _, overdrawn := s.exceededAt(s.units); !overdrawn {
		return 0, false // The usual case, without sorting.
	}
	lowest := func(u unit) uint64 {
		low := uint64(math.MaxUint64)
		for _, user := range u.users {
			low = min(low, rank(user))
		}
		return low
	}
	sorted := slices.Clone(s.units)
	slices.SortStableFunc(sorted, func(a, b unit) int { return cmp.Compare(lowest(a), lowest(b)) })
	at, _ := s.exceededAt(sorted)
	return lowest(sorted[at]), true
}

// exceededAt returns the first unit that the ones before it have left too little for.
func (s *supply) exceededAt(units []unit) (at int, exceeded bool) {
	room := s.room
	at = slices.IndexFunc(units, func(u unit) bool { return !room.Take(u.need) })
	return at, at >= 0
}

// users yields everybody who draws, each once.
func (s *supply) users() func(func(*allocation) bool) {
	return func(yield func(*allocation) bool) {
		seen := sets.New[*allocation]()
		for _, u := range s.units {
			for _, user := range u.users {
				if !seen.Has(user) && !yield(user) {
					return
				}
				seen.Insert(user)
			}
		}
	}
}

// compare finds the others with which the allocation is in conflict: if there is too
// little for it and all that are not known to be later (then it has lost), these; and later
// ones of which the same is true.
func (f *finder) compare(s *supply) {
	from, overdrawn := s.usedUp(func(a *allocation) uint64 { return a.written.First })
	if !overdrawn {
		return
	}
	lost := f.own.written.Last >= from
	for other := range s.users() {
		if other == f.own {
			continue
		}
		relation := relationOf(other.written, f.own.written)
		if lost && relation != Later || relation != Earlier && other.written.Last >= from {
			f.add(other, s.cause(), s.by, s.resource, lost)
		}
	}
}

// drawn returns the counters of a pool, and what compatibility groups limit, with all that
// draw on them: those on which the allocation draws, or all if none is given.
func (x *index) drawn(pool *inventory.NodePool, of *allocation) []*supply {
	limits, supplies := ledger.LimitsOf(pool), make(map[ledger.Limit]*supply)
	begin := func(limit ledger.Limit, by *use) {
		if supplies[limit] == nil {
			supplies[limit] = &supply{room: limits.Room(limit), resource: limits.Name(limit), by: by}
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
		if len(supplies) == 0 {
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
			s := supplies[limit]
			if s == nil {
				continue
			}
			if users == nil {
				users = usersOf(holdings)
			}
			s.units = append(s.units, unit{need, users})
		}
	}
	return sortedSupplies(supplies)
}

// capacities returns the capacities of a shared device that the share consumes, or all that
// are consumed if none is given, with all who do.
func (x *index) capacities(device *inventory.Device, by *use, of *share) []*supply {
	supplies := make(map[ledger.Limit]*supply)
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
			if supplies[room.Limit] == nil {
				supplies[room.Limit] = &supply{room: room, resource: string(c.capacity), by: by}
			}
			s := supplies[room.Limit]
			s.units = append(s.units, unit{need, []*allocation{h.by}})
		}
	}
	return sortedSupplies(supplies)
}

// consumes reports whether the share has anything of a capacity.
func (s *share) consumes(capacity resourceapi.QualifiedName) bool {
	return slices.ContainsFunc(s.consumed, func(own consumption) bool {
		return own.capacity == capacity && own.amount != (amount.Amount{})
	})
}

// sortedSupplies brings supplies into an order that is always the same.
func sortedSupplies(supplies map[ledger.Limit]*supply) []*supply {
	return slices.SortedFunc(maps.Values(supplies), func(a, b *supply) int {
		return cmp.Or(cmp.Compare(a.room.Kind, b.room.Kind), cmp.Compare(a.resource, b.resource))
	})
}
