package explain

import (
	"fmt"
	"slices"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/search"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
)

// tooFewTogether compares the devices that requests of each claim, and of all claims, want together with
// those that exist, also under each constraint. It finds only problems that exclude a solution. It returns
// the first lasting problem, or else the first one.
func (q inquiry) tooFewTogether() finding {
	var first finding
	for a := range q.survey().agreements {
		found := a.tooFew()
		if found.lasting {
			return found
		}
		if first.text == "" {
			first = found
		}
	}
	return first
}

// agreements yields all agreements that can be counted, those of fewer requests first.
func (n *survey) agreements(yield func(*agreement) bool) {
	for _, c := range n.q.Asked().Claims() {
		if len(c.Slots) > 1 && !n.countedTogether([]*task.Claim{c}, func(*task.Request) bool { return true }, yield) {
			return
		}
		constraints := n.q.constraintsOf(c)
		for i := range constraints {
			if !yield(n.agreement([]*task.Claim{c}, &constraints[i], constraints[i].appliesTo)) {
				return
			}
		}
	}
	if len(n.q.Asked().Claims()) > 1 {
		// Admin access takes nothing from other claims.
		n.countedTogether(n.q.Asked().Claims(), func(r *task.Request) bool { return !r.Admin }, yield)
	}
}

// countedTogether yields agreements of the requests that compete for the devices of one kind of request, of
// those for devices of one class, and of all together.
func (n *survey) countedTogether(claims []*task.Claim, counts func(*task.Request) bool, yield func(*agreement) bool) bool {
	kinds, classes := kindsAndClasses(claims, counts)
	for _, kind := range kinds {
		if !yield(n.agreement(claims, nil, func(r *task.Request) bool { return counts(r) && n.q.within(r, kind) })) {
			return false
		}
	}
	if len(kinds) < 2 {
		return true // All requests want the same devices.
	}
	for _, class := range classes {
		if !yield(n.agreement(claims, nil, func(r *task.Request) bool { return counts(r) && r.ClassName == class })) {
			return false
		}
	}
	return len(classes) < 2 || yield(n.agreement(claims, nil, counts))
}

// kindsAndClasses returns one request of each kind, and the names of the device classes.
func kindsAndClasses(claims []*task.Claim, counts func(*task.Request) bool) (kinds []*task.Request, classes []string) {
	for _, c := range claims {
		for i := range c.Slots {
			for _, r := range c.Slots[i].Alternatives {
				if !counts(r) {
					continue
				}
				if !slices.ContainsFunc(kinds, func(k *task.Request) bool { return k.Kind == r.Kind }) {
					kinds = append(kinds, r)
				}
				if !slices.Contains(classes, r.ClassName) {
					classes = append(classes, r.ClassName)
				}
			}
		}
	}
	return kinds, classes
}

// within reports whether all devices that match a request also match another one.
func (q inquiry) within(r, other *task.Request) bool {
	if r.Kind == other.Kind {
		return true
	}
	for pool := range q.Pools() {
		_, mine := q.Candidates(r, pool)
		_, others := q.Candidates(other, pool)
		if mine != nil && mine.Matches.LenWithout(others.Matches, 0) > 0 {
			return false
		}
	}
	return true
}

// tooFew returns a finding if there cannot be enough devices. detail adds the current numbers.
func (a *agreement) tooFew() finding {
	if a.constraint != nil {
		return a.unsatisfied()
	}
	usable := a.devices(none)
	if len(a.covered) < 2 || usable >= a.wanted {
		return finding{}
	}
	matching := a.devices(reachable)
	detail := func() string {
		return fmt.Sprintf("together they want %d; %s; %d available", a.wanted, matches(matching), usable)
	}
	if matching < a.wanted {
		text := fmt.Sprintf("%s; %s", a.subject(), matches(matching))
		return finding{text: text, lasting: true, detail: detail}
	}
	text := fmt.Sprintf("%s; %s", a.subject(), matches(matching))
	t := a.tally()
	if possible := a.devices(EndsByItself); possible < a.wanted {
		text += fmt.Sprintf("; at most %d could be had; the rest %s", possible, t.rest(Lasts))
		return finding{text: text, lasting: true, detail: detail}
	}
	return finding{text: fmt.Sprintf("%s; %d free; the rest %s", text, usable, t.rest(EndsByItself)), detail: detail}
}

func matches(n int) string {
	if n == 1 {
		return "1 matches"
	}
	return fmt.Sprintf("%d match", n)
}

// tally counts each device once for each request. It is for the causes.
func (a *agreement) tally() tally {
	var t tally
	for i := range a.covered {
		for _, pools := range a.covered[i].alternatives {
			for j := range pools {
				t.add(&pools[j], a.wanted)
			}
		}
	}
	return t
}

// subject describes the requests and the number of devices that they want together.
func (a *agreement) subject() string {
	return fmt.Sprintf("%s want %s%s together", a.who(), search.Plural(a.wanted, "device", "devices"), a.ofClass())
}

// who names the requests of one claim, or the claims.
func (a *agreement) who() string {
	var claims []*task.Claim
	for i := range a.covered {
		if c := a.covered[i].claim; !slices.Contains(claims, c) {
			claims = append(claims, c)
		}
	}
	switch {
	case len(claims) == 1:
		return fmt.Sprintf("claim %s %s", dra.Of(claims[0].API), a.requests())
	case len(claims) == len(a.claims) && len(claims) > search.NamedAtMost:
		return "the pod's claims"
	}
	return claimNames(claims)
}

// ofClass names the class of the devices if they have a common one.
func (a *agreement) ofClass() string {
	class := ""
	for i := range a.covered {
		for _, pools := range a.covered[i].alternatives {
			for j := range pools {
				if name := pools[j].request.ClassName; class == "" || class == name {
					class = name
				} else {
					return ""
				}
			}
		}
	}
	return " of class " + class
}
