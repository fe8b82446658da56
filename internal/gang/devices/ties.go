package devices

import (
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/gang/search"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// mostRivals limits the units that choose again. mostChoices limits the single choices, over all orders that are tried.
const (
	mostRivals  = 256
	mostChoices = 512
)

// rearrange tries to find devices for changed units when the plans of other units may be in the way. All units that
// may be in each other's way choose again, one after the other. A unit that gets nothing chooses first the next time.
func (t *Trial) rearrange(s *step, changed []int) search.Answer {
	group := t.rivals(changed)
	if len(group) == 1 {
		return search.No
	}
	beside := t.plannedBut(group...)
	for _, number := range changed {
		if _, answer := t.choose(t.units[number], beside); answer != search.Yes {
			return answer
		}
	}
	if len(group) > mostRivals {
		return search.Unknown
	}
	if t.isTooMuch(group, beside) {
		return search.No
	}
	for modesty := range t.mostAlternatives(group) {
		if t.chooseInTurn(s, group, beside, modesty) {
			return search.Yes
		}
	}
	return search.Unknown
}

// rivals returns the changed units, the units whose devices may be in their way, those in the way of these, and so on.
func (t *Trial) rivals(changed []int) []int {
	group := slices.Clone(changed)
	reached := make(map[inventory.PoolID]bool)
	reach := func(number int) {
		for _, node := range t.units[number].nodes {
			for _, pool := range t.Site(t.Nodes[node]).Pools {
				reached[pool.ID] = true
			}
		}
	}
	for _, number := range group {
		reach(number)
	}
	left := slices.Sorted(maps.Keys(t.units)) // Sorted, so that the result is deterministic.
	left = slices.DeleteFunc(left, func(number int) bool { return slices.Contains(group, number) })
	for more := true; more; {
		more = false
		left = slices.DeleteFunc(left, func(number int) bool {
			if !slices.ContainsFunc(t.units[number].uses, func(id inventory.PoolID) bool { return reached[id] }) {
				return false
			}
			group, more = append(group, number), true
			reach(number)
			return true
		})
	}
	return group
}

// chooseInTurn lets units choose one after the other, in several orders, and reports whether all got devices.
func (t *Trial) chooseInTurn(s *step, group []int, beside []*unit, modesty int) bool {
	order := slices.Clone(group)
	for tried := 0; tried < mostChoices; {
		planned := slices.Clone(beside)
		failed := slices.IndexFunc(order, func(number int) bool {
			tried++
			results, answer := t.choose(modest(t.units[number], modesty), planned)
			if answer == search.Yes {
				t.put(s, number, t.units[number].with(results))
				planned = append(planned, t.units[number])
			}
			return answer != search.Yes
		})
		if failed < 0 {
			return true
		}
		if failed == 0 || t.effort <= 0 {
			return false
		}
		first := order[failed]
		order = slices.Insert(slices.Delete(order, failed, failed+1), 0, first)
	}
	return false
}

// choose does the same as find, within the budget.
func (t *Trial) choose(u *unit, beside []*unit) ([]resourceapi.AllocationResult, search.Answer) {
	if t.effort <= 0 {
		return nil, search.Unknown
	}
	t.spend(len(u.claims), beside)
	return t.find(u, t.Site, beside, true)
}

func (t *Trial) spend(claims int, beside []*unit) {
	for _, u := range beside {
		claims += len(u.claims)
	}
	t.effort -= 1 + claims/claimsPerEffort
}

// mostAlternatives returns the largest number of alternatives of any request in the units.
func (t *Trial) mostAlternatives(group []int) int {
	most := 1
	for _, number := range group {
		for _, claim := range t.units[number].claims {
			for r := range dra.Requests(claim) {
				most = max(most, r.Rank+1)
			}
		}
	}
	return most
}

// modest returns a unit without the first alternatives of each request: other units may depend on these devices more.
func modest(u *unit, modesty int) *unit {
	if modesty == 0 {
		return u
	}
	next := *u
	next.claims, next.modesty = nil, modesty
	for _, claim := range u.claims {
		next.claims = append(next.claims, dra.WithAlternatives(claim, modesty, resourceapi.FirstAvailableDeviceRequestMaxSize))
	}
	return &next
}

// ownFirst moves the pools that only one node reaches to the front, so that the allocator tries them first. It
// leaves a site with an objective as it is.
func (t *Trial) ownFirst(site allocator.NodeView) allocator.NodeView {
	if !t.Shared || site.Objective != nil {
		return site
	}
	var own, others []*inventory.NodePool
	for _, pool := range site.Pools {
		if pool.Layout != nil && len(pool.Devices) > 0 && pool.Devices[0].Slice.Spec.NodeName != nil {
			own = append(own, pool)
		} else {
			others = append(others, pool)
		}
	}
	site.Pools = append(own, others...)
	return site
}
