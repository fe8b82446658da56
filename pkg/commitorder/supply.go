package commitorder

import (
	"cmp"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/quartermaster-dra/quartermaster/pkg/amount"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// supply is something of which there is a limited amount, and who draws from it: a
// counter of a pool, or a capacity of a device. What compatibility groups limit is a
// supply as well: which devices draw from a counter set at the same time.
type supply struct {
	cause    Cause
	resource string // as in Conflict
	// by is the first device that draws from it, of the claim that is asked about; of a
	// capacity, the device that has it.
	by       *use
	limit    amount.Amount
	byGroups bool
	units    []unit
}

// unit draws a fixed amount as long as anybody uses it. For a counter it is a device:
// it draws once, however many claims share it. For a capacity it is a share.
type unit struct {
	draws  amount.Amount
	groups []string // only byGroups
	users  []*allocation
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
	left, together, fits := s.limit, inventory.Groups{}, true
	for i, u := range units {
		if s.byGroups {
			together, fits = together.Join(u.groups)
		} else {
			left = left.Minus(u.draws)
			fits = !left.IsNegative()
		}
		if !fits {
			return i, true
		}
	}
	return 0, false
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
			f.add(other, s.cause, s.by, s.resource, lost)
		}
	}
}

// counters returns the counters of a pool with all that draw on them: those on which the
// allocation draws, or all if none is given.
func (x *index) counters(pool *inventory.NodePool, of *allocation) []*supply {
	if pool.Counters == nil {
		return nil
	}
	supplies := make(map[int]*supply) // by number of the counter
	newSupply := func(number int, by *use) *supply {
		if supplies[number] == nil {
			supplies[number] = &supply{cause: Counter, resource: counterName(pool.Counters, number), by: by,
				limit: pool.Counters.Published[number]}
		}
		return supplies[number]
	}
	if of != nil {
		for u := range of.usesIn(pool.Key) {
			for number := range drawn(pool, u.device) {
				newSupply(number, u)
			}
		}
		if len(supplies) == 0 {
			return nil
		}
	}
	for device, holdings := range x.pools[pool.Key] {
		var users []*allocation
		for number, draws := range drawn(pool, device) {
			if of == nil {
				newSupply(number, nil)
			}
			s := supplies[number]
			if s == nil {
				continue
			}
			if users == nil {
				users = usersOf(holdings)
			}
			s.units = append(s.units, unit{draws: draws, users: users})
		}
	}
	return sortedSupplies(supplies)
}

// capacities returns the capacities of a shared device that the share consumes, or all that
// are consumed if none is given, with all who do.
func (x *index) capacities(device *inventory.Device, by *use, of *share) []*supply {
	supplies := make(map[string]*supply)
	for _, h := range x.pools[by.pool][by.device] {
		if h.share == nil {
			continue
		}
		for _, c := range h.share.consumed {
			published, found := device.Capacity[c.capacity]
			if !found || c.amount == (amount.Amount{}) || of != nil && !of.consumes(c) {
				continue
			}
			name := string(c.capacity)
			if supplies[name] == nil {
				supplies[name] = &supply{cause: Capacity, resource: name, by: by, limit: amount.Of(published.Value)}
			}
			supplies[name].units = append(supplies[name].units, unit{draws: c.amount, users: []*allocation{h.by}})
		}
	}
	return sortedSupplies(supplies)
}

// consumes reports whether the share has anything of a capacity.
func (s *share) consumes(c consumption) bool {
	return slices.ContainsFunc(s.consumed, func(own consumption) bool {
		return own.capacity == c.capacity && own.amount != (amount.Amount{})
	})
}

// sortedSupplies brings supplies into an order that is always the same.
func sortedSupplies[K cmp.Ordered](supplies map[K]*supply) []*supply {
	list := make([]*supply, 0, len(supplies))
	for _, s := range supplies {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *supply) int { return cmp.Compare(a.resource, b.resource) })
	return list
}

// drawn yields the numbers of the counters on which a device draws, and how much, 0
// excepted. A device that is not published (any more) draws nothing: nobody knows how much.
func drawn(pool *inventory.NodePool, name deviceName) func(func(int, amount.Amount) bool) {
	return func(yield func(int, amount.Amount) bool) {
		if pool.Counters == nil {
			return
		}
		for _, draw := range pool.Draws(name.Value()) {
			for number, drawn := range draw.All() {
				if drawn != (amount.Amount{}) && !yield(number, drawn) {
					return
				}
			}
		}
	}
}

func counterName(counters *inventory.Counters, number int) string {
	for set, name := range counters.Sets {
		if first, end := counters.Range(set); first <= number && number < end {
			return name + "/" + counters.Names[number]
		}
	}
	return counters.Names[number]
}
