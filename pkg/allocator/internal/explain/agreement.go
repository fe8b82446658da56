package explain

import (
	"slices"

	"github.com/quartermaster-dra/quartermaster/internal/attribute"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/search"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
)

// agreement counts the devices that requests can have together at most, if only one constraint and the causes
// against single devices mattered. So only "too few" is certain.
type agreement struct {
	claims []*task.Claim // the claims whose requests count
	// constraint is nil if the only condition is that no device is used twice.
	constraint *constraint
	covered    []coveredSlot
	wanted     int // minimum number of devices for all covered requests
}

// coveredSlot is a request that a constraint covers entirely or for some alternatives. It holds the
// inspections of each such alternative in each pool.
type coveredSlot struct {
	claim        *task.Claim
	name         string
	wanted       int // at least
	alternatives [][]inspection
}

// survey creates agreements. It inspects the devices for each request only once.
type survey struct {
	q    inquiry
	seen map[*task.Request][]inspection
}

func (q inquiry) survey() *survey { return &survey{q, make(map[*task.Request][]inspection)} }

func (n *survey) inspect(r *task.Request) []inspection {
	if n.seen[r] == nil {
		n.seen[r] = n.q.inspect(r)
	}
	return n.seen[r]
}

// agreement returns the agreement of the covered requests of claims. The constraint, if any, must cover them too.
func (n *survey) agreement(claims []*task.Claim, constraint *constraint, covers func(*task.Request) bool) *agreement {
	a := &agreement{claims: claims, constraint: constraint}
	for _, c := range claims {
		for i := range c.Slots {
			slot := n.coveredSlot(c, &c.Slots[i], covers)
			// A request that may get other devices does not compete for these.
			if slot.alternatives != nil && (slot.wanted > 0 || constraint != nil) {
				a.covered, a.wanted = append(a.covered, slot), a.wanted+slot.wanted
			}
		}
	}
	return a
}

func (n *survey) coveredSlot(c *task.Claim, slot *task.Slot, covers func(*task.Request) bool) coveredSlot {
	least, covered := -1, coveredSlot{claim: c, name: slot.Name}
	for _, r := range slot.Alternatives {
		wanted := 0
		if covers(r) {
			wanted = n.q.Wanted(r)
			covered.alternatives = append(covered.alternatives, n.inspect(r))
		}
		if least < 0 || wanted < least {
			least = wanted
		}
	}
	covered.wanted = max(least, 0)
	return covered
}

// none ignores no cause, so that devices must be available.
func none(Cause) bool { return false }

// reachable ignores all causes but one.
func reachable(c Cause) bool { return c != Unreachable }

// devices returns the number of devices that are available or have an ignored cause.
func (a *agreement) devices(ignored func(Cause) bool) int {
	return a.count(ignored).greatest(a).devices
}

// count counts, by value, the devices that are available or have an ignored cause.
func (a *agreement) count(ignored func(Cause) bool) *valueCounts {
	counts := &valueCounts{byValue: make(map[attribute.Value]*agreeing), slots: len(a.covered)}
	if len(a.covered) == 0 {
		return counts
	}
	for pool, first := range a.covered[0].alternatives[0] {
		for device := range first.pool.Devices {
			shared := first.q.CanShare(first.index, device)
			var all []attribute.Value
			for i := range a.covered {
				offered := a.offered(a.covered[i].alternatives, pool, device, ignored)
				counts.addTo(i, offered)
				if shared {
					counts.add(offered) // Each request can have a share.
				}
				all = union(all, offered)
			}
			if !shared {
				counts.add(all)
			}
		}
	}
	return counts
}

// offered returns the values of a device for any of the alternatives.
func (a *agreement) offered(alternatives [][]inspection, pool, device int, ignored func(Cause) bool) []attribute.Value {
	var list []attribute.Value
	for _, inspections := range alternatives {
		in := &inspections[pool]
		if !in.selection.Matches.Has(device) {
			continue
		}
		if cause := in.cause(device); cause != Available && !ignored(cause) {
			continue
		}
		list = union(list, a.seen(in, device))
	}
	return list
}

// seen returns the values of a device. It returns Value{} for a value of an unknown type, and if there is no constraint.
func (a *agreement) seen(in *inspection, device int) []attribute.Value {
	if a.constraint == nil {
		return []attribute.Value{{}}
	}
	list, found := in.values(a.constraint, device)
	if found && len(list) == 0 {
		return []attribute.Value{{}}
	}
	return list
}

func union(a, b []attribute.Value) []attribute.Value {
	for _, v := range b {
		if !slices.Contains(a, v) {
			a = append(a, v)
		}
	}
	return a
}

func (a *agreement) requests() string { return search.Requests(a.names()) }

func (a *agreement) names() []string {
	var names []string
	for i := range a.covered {
		names = append(names, a.covered[i].name)
	}
	return names
}
