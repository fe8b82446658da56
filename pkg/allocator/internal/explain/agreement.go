package explain

import (
	"slices"

	"github.com/quartermaster-dra/quartermaster/internal/attribute"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/report"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/words"
)

// agreement is how many devices requests can have together at most, if nothing else
// mattered but one constraint and what keeps requests from single devices. So only
// "too few" is certain.
type agreement struct {
	claims []*task.Claim // those whose requests it looks at
	// constraint is nil if no more is asked than that no device is used twice.
	constraint *constraint
	covered    []coveredSlot
	wanted     int // devices for all covered requests, at least
}

// coveredSlot is a request that a constraint is for, or some alternatives of it, as
// seen by each alternative in each pool.
type coveredSlot struct {
	claim        *task.Claim
	name         string
	wanted       int // at least
	alternatives [][]inspection
}

// survey makes agreements. It looks at the devices for each request only once.
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

// agreement looks at those requests of claims that are covered. The constraint, if
// any, must cover them too.
func (n *survey) agreement(claims []*task.Claim, constraint *constraint, covers func(*task.Request) bool) *agreement {
	a := &agreement{claims: claims, constraint: constraint}
	for _, c := range claims {
		for i := range c.Slots {
			slot := n.coveredSlot(c, &c.Slots[i], covers)
			// What need not come from these devices does not compete for them.
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
func none(report.Cause) bool { return false }

// reachable ignores all causes but one.
func reachable(c report.Cause) bool { return c != report.Unreachable }

// devices counts those that are available or have only a cause that is to be ignored.
func (a *agreement) devices(ignored func(report.Cause) bool) int {
	return a.count(ignored).greatest(a).devices
}

// count counts the devices that are available or have only a cause that is to be
// ignored, by value.
func (a *agreement) count(ignored func(report.Cause) bool) *valueCounts {
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

// offered are the values that a device has for any of the alternatives.
func (a *agreement) offered(alternatives [][]inspection, pool, device int, ignored func(report.Cause) bool) []attribute.Value {
	var list []attribute.Value
	for _, inspections := range alternatives {
		in := &inspections[pool]
		if !in.selection.Matches.Has(device) {
			continue
		}
		if cause := in.cause(device); cause != report.Available && !ignored(cause) {
			continue
		}
		list = union(list, a.seen(in, device))
	}
	return list
}

// seen are the values of a device, value{} for one of a type that is not understood,
// and also if the attribute does not matter.
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

func (a *agreement) requests() string { return words.Requests(a.names()) }

func (a *agreement) names() []string {
	var names []string
	for i := range a.covered {
		names = append(names, a.covered[i].name)
	}
	return names
}
