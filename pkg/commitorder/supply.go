package commitorder

import (
	"slices"

	"github.com/quartermaster-dra/quartermaster/pkg/amount"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// supply is something of which there is a limited amount, and who draws from it: a
// counter of a pool, or a capacity of a device. What compatibility groups limit is a
// supply as well: which devices draw from a counter set at the same time.
type supply struct {
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

// overdrawn reports whether the limit is exceeded by the units that have a matching user.
func (s *supply) overdrawn(matches func(*allocation) bool) bool {
	left, together, ok := s.limit, inventory.Groups{}, true
	for _, u := range s.units {
		switch {
		case !slices.ContainsFunc(u.users, matches):
		case !s.byGroups:
			left = left.Minus(u.draws)
		default:
			if together, ok = together.Join(u.groups); !ok {
				return true
			}
		}
	}
	return left.IsNegative()
}

// exceededBy reports whether there is too little for the allocation and all that are not
// known to be later.
func (s *supply) exceededBy(a *allocation) bool {
	return s.overdrawn(func(other *allocation) bool {
		return other == a || relationOf(other.written, a.written) != Later
	})
}

// rivalsOf returns the others with which the allocation is in conflict: if there is too
// little for it and the earlier ones (then it has lost), these; and later ones for which
// there is too little.
func (s *supply) rivalsOf(own *allocation) (rivals []*allocation, lost bool) {
	if !s.overdrawn(func(*allocation) bool { return true }) {
		return nil, false
	}
	lost = s.exceededBy(own)
	judged := map[*allocation]bool{own: true}
	for _, u := range s.units {
		for _, other := range u.users {
			if judged[other] {
				continue
			}
			judged[other] = true
			relation := relationOf(other.written, own.written)
			if lost && relation != Later || relation != Earlier && s.exceededBy(other) {
				rivals = append(rivals, other)
			}
		}
	}
	return rivals, lost
}

// compareCapacity finds others whose shares of a device leave too little for this one.
func (f *finder) compareCapacity(u *use, pool *inventory.NodePool) {
	device := pool.Device(u.device.Value())
	if device == nil {
		return
	}
	for _, own := range u.share.consumed {
		capacity, found := device.Capacity[own.capacity]
		if !found || own.amount == (amount.Amount{}) {
			continue
		}
		s := supply{limit: amount.Of(capacity.Value)}
		for _, h := range f.index.pools[u.pool][u.device] {
			if h.share == nil {
				continue
			}
			for _, c := range h.share.consumed {
				if c.capacity == own.capacity && c.amount != (amount.Amount{}) {
					s.units = append(s.units, unit{draws: c.amount, users: []*allocation{h.by}})
				}
			}
		}
		rivals, lost := s.rivalsOf(f.own)
		for _, other := range rivals {
			f.add(other, Capacity, u, string(own.capacity), lost)
		}
	}
}

// compareCounters finds others whose devices leave too little of a counter for the
// allocation's devices in the pool.
func (f *finder) compareCounters(pool *inventory.NodePool) {
	supplies := make(map[int]*supply) // by number of the counter
	drawnBy := make(map[int]*use)     // the allocation's first device that draws on it
	for i := range f.own.uses {
		u := &f.own.uses[i]
		if u.pool != pool.Key {
			continue
		}
		for number := range drawn(pool, u.device) {
			if supplies[number] == nil {
				supplies[number] = &supply{limit: pool.Counters.Published[number]}
				drawnBy[number] = u
			}
		}
	}
	if len(supplies) == 0 {
		return
	}
	for device, holdings := range f.index.pools[pool.Key] {
		var users []*allocation
		for number, draws := range drawn(pool, device) {
			s := supplies[number]
			if s == nil {
				continue
			}
			if users == nil {
				for _, h := range holdings {
					users = append(users, h.by)
				}
			}
			s.units = append(s.units, unit{draws: draws, users: users})
		}
	}
	for number, s := range supplies {
		rivals, lost := s.rivalsOf(f.own)
		for _, other := range rivals {
			f.add(other, Counter, drawnBy[number], counterName(pool.Counters, number), lost)
		}
	}
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
