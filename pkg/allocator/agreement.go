package allocator

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/klog/v2"
)

// agreement is how many devices the requests of a claim can have together at most, if
// nothing else mattered but one constraint and what keeps requests from single
// devices. So only "too few" is certain.
type agreement struct {
	claim *claim
	// constraint is nil if no more is asked than that no device is used twice.
	constraint *scopedConstraint
	covered    []coveredSlot
	wanted     int // devices for all covered requests, at least
}

// usable are the devices that can be had now.
func (a *agreement) usable() group { return a.greatest(func(Cause) bool { return false }) }

// possible are those that could be had if other claims had none.
func (a *agreement) possible() group { return a.greatest(Cause.endsByItself) }

// coveredSlot is a request that a constraint is for, or some alternatives of it, as
// seen by each alternative in each pool.
type coveredSlot struct {
	name         string
	alternatives [][]inspection
}

// group is the greatest set of devices that agree on a value. For distinctAttribute
// it is the number of values.
type group struct {
	value   value
	devices int
}

// agreement looks at those requests of a claim that are covered. The constraint, if
// any, must cover them too.
func (s *search) agreement(c *claim, constraint *scopedConstraint, covers func(*request) bool) *agreement {
	a := &agreement{claim: c, constraint: constraint}
	for i := range c.slots {
		slot := &c.slots[i]
		least, covered := -1, coveredSlot{name: slot.name}
		for _, r := range slot.alternatives {
			wanted := 0
			if covers(r) {
				wanted = s.wantedBy(r)
				covered.alternatives = append(covered.alternatives, s.inspect(r))
			}
			if least < 0 || wanted < least {
				least = wanted
			}
		}
		if covered.alternatives != nil {
			a.covered, a.wanted = append(a.covered, covered), a.wanted+max(least, 0)
		}
	}
	return a
}

// greatest finds the greatest group of devices that are available or have only a
// cause that is to be ignored. Of several, it is the one that is met first.
func (a *agreement) greatest(ignored func(Cause) bool) group {
	if len(a.covered) == 0 {
		return group{}
	}
	counts := newGroupCounts()
	for pool, first := range a.covered[0].alternatives[0] {
		for device := range first.pool.Devices {
			shared := first.s.shared(location{first.index, device})
			var all []value
			for i := range a.covered {
				offered := a.offered(a.covered[i].alternatives, pool, device, ignored)
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
	if a.constraint != nil && a.constraint.distinct {
		return group{devices: len(counts.order)}
	}
	return counts.greatest(a.constraint != nil)
}

// offered are the values that a device has for any of the alternatives.
func (a *agreement) offered(alternatives [][]inspection, pool, device int, ignored func(Cause) bool) []value {
	var list []value
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

// seen are the values of a device, value{} for one of a type that is not understood,
// and also if the attribute does not matter.
func (a *agreement) seen(in *inspection, device int) []value {
	if a.constraint == nil {
		return []value{{}}
	}
	list, found := in.values(a.constraint, device)
	if found && len(list) == 0 {
		return []value{{}}
	}
	return list
}

func union(a, b []value) []value {
	for _, v := range b {
		if !slices.Contains(a, v) {
			a = append(a, v)
		}
	}
	return a
}

// groupCounts counts devices by value, in the order in which values are met.
type groupCounts struct {
	order []value
	count map[value]int
}

func newGroupCounts() *groupCounts { return &groupCounts{count: make(map[value]int)} }

func (g *groupCounts) add(values []value) {
	for _, v := range union(nil, values) {
		if g.count[v] == 0 {
			g.order = append(g.order, v)
		}
		g.count[v]++
	}
}

// greatest returns the greatest group. Devices whose value is not understood agree
// with none, not even among themselves, if the value matters.
func (g *groupCounts) greatest(valueMatters bool) group {
	var best group
	for _, v := range g.order {
		count := g.count[v]
		if valueMatters && v.kind == noKind {
			count = 1
		}
		if count > best.devices {
			best = group{v, count}
		}
	}
	return best
}

func (v value) String() string {
	switch v.kind {
	case intKind:
		return strconv.FormatInt(v.num, 10)
	case boolKind:
		return strconv.FormatBool(v.num == 1)
	}
	return v.text
}

// tooFew says that there cannot be enough devices, "" if there may be. The number of
// devices is told if it is that of the node's hardware and not of the moment.
func (a *agreement) tooFew() string {
	if a.constraint == nil && len(a.covered) < 2 || a.usable().devices >= a.wanted {
		return ""
	}
	could := "but fewer are free"
	switch n := a.possible().devices; {
	case n == 0:
		could = "but none could be had"
	case n < a.wanted:
		could = fmt.Sprintf("but at most %d could be had", n)
	}
	return fmt.Sprintf("claim %s, %s: %s, %s", klog.KObj(a.claim.api), a.requests(), a.ask(), could)
}

// ask is what the requests ask for.
func (a *agreement) ask() string {
	devices, verb := plural(a.wanted, "device", "devices"), "are"
	if a.wanted == 1 {
		verb = "is"
	}
	switch {
	case a.constraint == nil:
		return fmt.Sprintf("%s %s wanted together", devices, verb)
	case a.constraint.api.MatchAttribute != nil:
		return fmt.Sprintf("%s %s wanted that agree on %s (matchAttribute)", devices, verb, a.constraint.name.full)
	}
	return fmt.Sprintf("%s %s wanted that all differ in %s (distinctAttribute)", devices, verb, a.constraint.name.full)
}

func (a *agreement) requests() string { return requestNames(a.names()) }

func (a *agreement) names() []string {
	var names []string
	for i := range a.covered {
		names = append(names, a.covered[i].name)
	}
	return names
}

// join lists names, but not too many of them.
func join(names []string) string {
	last := len(names) - 1
	if last > namedAtMost {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namedAtMost], ", "), len(names)-namedAtMost)
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// requestNames joins the names of requests.
func requestNames(names []string) string {
	switch last := len(names) - 1; {
	case last < 0:
		return "no request"
	case last == 0:
		return "request " + names[0]
	default:
		return "requests " + join(names)
	}
}
