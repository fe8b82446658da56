package explain

import (
	"fmt"

	"github.com/quartermaster-dra/quartermaster/internal/attribute"
	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/search"
)

// unsatisfied returns a finding if a constraint excludes a solution.
func (a *agreement) unsatisfied() finding {
	usable := a.count(none).greatest(a)
	if a.enough(&usable) {
		return finding{}
	}
	possible := a.count(EndsByItself).greatest(a)
	found := finding{lasting: !a.enough(&possible), detail: func() string { return a.shortOf(&usable) }}
	var could string
	switch {
	case !found.lasting && a.disjoint(&usable):
		could = "no value has enough free devices for each of them"
	case !found.lasting:
		could = fmt.Sprintf("at most %d free", usable.devices)
	case possible.devices == 0:
		could = "none could be had"
	case a.disjoint(&possible):
		could = "no value has enough devices for each of them"
	default:
		could = fmt.Sprintf("at most %d could be had", possible.devices)
	}
	found.text = fmt.Sprintf("claim %s %s: %s; %s", dra.Of(a.claims[0].API), a.requests(), a.ask(), could)
	if n := a.lists(); n > 0 {
		found.text += "; " + HaveLists(n, a.constraint.name.ID)
	}
	return found
}

// disjoint reports whether, for the best value of several requests, some request lacks devices, so that the
// total number is not the problem.
func (a *agreement) disjoint(best *agreeing) bool {
	return len(a.covered) > 1 && !a.constraint.distinct && !a.satisfiesEach(best)
}

// ask describes the devices that the requests want.
func (a *agreement) ask() string {
	devices := search.Plural(a.wanted, "device", "devices")
	switch {
	case a.constraint.api.MatchAttribute != nil:
		return fmt.Sprintf("%s asked that agree on %s (matchAttribute)", devices, a.constraint.name.Full)
	}
	return fmt.Sprintf("%s asked that all differ in %s (distinctAttribute)", devices, a.constraint.name.Full)
}

// shortOf describes the current shortage.
func (a *agreement) shortOf(usable *agreeing) string {
	name := a.constraint.name.Full
	switch {
	case a.constraint.distinct:
		return fmt.Sprintf("together %d are wanted that differ in %s and at best %d do", a.wanted, name, usable.devices)
	case a.disjoint(usable):
		return fmt.Sprintf("no value of %s has enough of them for each", name)
	}
	return fmt.Sprintf("together %d are wanted that agree on %s and at best %d do", a.wanted, name, usable.devices)
}

// lists counts the matching devices whose value is an unsupported list.
func (a *agreement) lists() int {
	if a.constraint.lists || len(a.covered) == 0 {
		return 0
	}
	n := 0
	for pool, first := range a.covered[0].alternatives[0] {
		for device := range first.pool.Devices {
			if published := a.constraint.name.Lookup(&first.pool.Devices[device]); published == nil || len(attribute.ListValues(published)) == 0 {
				continue
			}
			if len(a.offered(a.matchers(), pool, device, reachable)) > 0 {
				n++
			}
		}
	}
	return n
}

// matchers returns all alternatives of all requests.
func (a *agreement) matchers() [][]inspection {
	var all [][]inspection
	for i := range a.covered {
		all = append(all, a.covered[i].alternatives...)
	}
	return all
}

// lacking returns, if no value has enough available devices for each request, the values for which each
// request lacks devices.
func (a *agreement) lacking() []LackingRequest {
	counts := a.count(none)
	if best := counts.greatest(a); len(counts.order) == 0 || !a.disjoint(&best) {
		return nil
	}
	var list []LackingRequest
	for i := range a.covered {
		lacking := LackingRequest{Request: a.covered[i].name}
		for _, v := range counts.order {
			if v.IsKnown() && counts.byValue[v].bySlot[i] < a.covered[i].wanted {
				lacking.Values = append(lacking.Values, v.String())
			}
		}
		if lacking.Values != nil {
			list = append(list, lacking)
		}
	}
	return list
}
