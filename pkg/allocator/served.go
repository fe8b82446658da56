package allocator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/internal/amount"
)

// served are claims and requests that can be had together, one way to have them, and
// the request that cannot be had in addition.
type served struct {
	next    *slot
	had     int      // devices that next could have
	names   []string // of what comes before next: claims, or requests of its own claim
	results []resourceapi.AllocationResult
}

// serve finds out with small searches how far one gets with the claims, in their order
// and without their constraints. It is nil if that would take too long, or if
// everything can be had.
func (s *search) serve(claims []*claim) *served {
	last := claims[len(claims)-1]
	var before []*resourceapi.ResourceClaim
	for _, c := range claims[:len(claims)-1] {
		before = append(before, unconstrained(c))
	}
	found := &served{}
	if len(before) > 0 {
		outcome := s.attempt(before...)
		if outcome == nil || !outcome.Fits() {
			return nil
		}
		found.results, found.names = outcome.Results, []string{claimNames(claims[:len(claims)-1])}
	}
	for i := range last.slots {
		cut := unconstrained(last)
		cut.Spec.Devices.Requests = cut.Spec.Devices.Requests[:i+1]
		outcome := s.attempt(append(slices.Clone(before), cut)...)
		switch {
		case outcome == nil:
			return nil
		case !outcome.Fits():
			found.next = &last.slots[i]
			if i > 0 {
				found.names = append(found.names, requestNames(slotNames(last.slots[:i])))
			}
			s.serveSome(found, before, cut)
			return found
		}
		found.results = outcome.Results
	}
	return nil
}

// serveSome gives the last request of a claim as many devices as possible, but not all.
func (s *search) serveSome(found *served, before []*resourceapi.ResourceClaim, cut *resourceapi.ResourceClaim) {
	exactly := cut.Spec.Devices.Requests[len(cut.Spec.Devices.Requests)-1].Exactly
	if exactly == nil || found.next.alternatives[0].all() {
		return
	}
	for wanted := exactly.Count; int64(found.had)+1 < wanted; found.had++ {
		exactly.Count = int64(found.had) + 1
		outcome := s.attempt(append(slices.Clone(before), cut)...)
		if outcome == nil || !outcome.Fits() {
			return
		}
		found.results = outcome.Results
	}
}

func slotNames(slots []slot) []string {
	var names []string
	for i := range slots {
		names = append(names, slots[i].name)
	}
	return names
}

// attempt solves claims with a small budget; nil if that is not enough to tell. It does
// not depend on the search's context, which may have ended by now, nor on a budget that
// this has in common with others.
func (s *search) attempt(claims ...*resourceapi.ResourceClaim) *Outcome {
	small := *s.solver
	small.StepBudget = explainBudget
	outcome, err := small.Prepare(claims).Solve(WithSteps(context.WithoutCancel(s.ctx), nil), s.site)
	if err != nil {
		return nil
	}
	outcome.Release() // Nobody asks it for reasons.
	if outcome.GaveUp {
		return nil
	}
	return outcome
}

// drained is a counter of which too little is left when some requests have been served.
type drained struct {
	shortfall
	// devices is how many devices it rules out, of those that are left.
	devices int
}

// drainedBy lists the counters that rule out devices for the next request, those that
// rule out most first. ok is false if there are devices that it does not rule out.
func (s *search) drainedBy(have *served) (list []drained, ok bool) {
	chosen, counters := s.chosenIn(have.results), make(map[string]*drained)
	left := s.leftAfter(chosen)
	for _, r := range have.next.alternatives {
		for _, in := range s.inspect(r) {
			for device := range in.selection.Matches.All() {
				if chosen[location{in.index, device}] || in.cause(device) != Available {
					continue
				}
				if !in.addDrained(counters, device, left[in.index]) {
					return nil, false
				}
			}
		}
	}
	for _, counter := range counters {
		list = append(list, *counter)
	}
	slices.SortFunc(list, func(a, b drained) int {
		return cmp.Or(cmp.Compare(b.devices, a.devices), cmp.Compare(a.name, b.name))
	})
	return list, len(list) > 0
}

// addDrained counts a device for the counters that rule it out, and reports whether
// there are any. Of several shortfalls of a counter the least is kept.
func (in *inspection) addDrained(counters map[string]*drained, device int, left []amount.Amount) bool {
	any := false
	formats := in.pool.Counters
	for _, draw := range formats.Draws(device) {
		for number, needed := range draw.All() {
			if left[number].Covers(needed) {
				continue
			}
			any = true
			name := formats.Names[number]
			short := shortfall{name, needed.Quantity(formats.Formats[number]), left[number].Quantity(formats.Formats[number])}
			switch known := counters[name]; {
			case known == nil:
				counters[name] = &drained{short, 1}
			case isLess(short.by(), known.by()):
				counters[name] = &drained{short, known.devices + 1}
			default:
				known.devices++
			}
		}
	}
	return any
}

// chosenIn are the places of the devices in results.
func (s *search) chosenIn(results []resourceapi.AllocationResult) map[location]bool {
	chosen := make(map[location]bool)
	for i := range results {
		for _, result := range results[i].Devices.Results {
			for index, pool := range s.site.Pools {
				if pool.ID.Driver != result.Driver || pool.ID.Name != result.Pool {
					continue
				}
				for device := range pool.Devices {
					if pool.Devices[device].Name == result.Device {
						chosen[location{index, device}] = true
					}
				}
			}
		}
	}
	return chosen
}

// leftAfter is what devices leave of the counters, by pool.
func (s *search) leftAfter(chosen map[location]bool) [][]amount.Amount {
	left := make([][]amount.Amount, len(s.site.Pools))
	for index, pool := range s.site.Pools {
		if pool.Counters != nil {
			left[index] = slices.Clone(s.pools[index].usage.Remaining(pool).Amounts)
		}
	}
	for at := range chosen {
		if s.shared(at) && s.inUse(at) {
			continue // Its counters are accounted for.
		}
		draws := s.site.Pools[at.pool].Counters.Draws(at.device)
		for i := range draws {
			draws[i].TakeFrom(left[at.pool])
		}
	}
	return left
}

// counterNames are, without their sets, those that rule out all devices, or else those
// that rule out most.
func counterNames(list []drained) []string {
	var names []string
	for i := range list {
		if list[i].devices == list[0].devices {
			names = append(names, list[i].name)
		}
	}
	return names
}

// detail says what is missing of the counters for the next request.
func (have *served) detail(list []drained) string {
	var with, words []string
	with = append(with, have.names...)
	if have.had > 0 {
		with = append(with, plural(have.had, "device", "devices")+" of its own")
	}
	for i := range list {
		if list[i].devices == list[0].devices && len(words) < namedAtMost {
			words = append(words, fmt.Sprintf("%s (%s needed, at most %s left)", list[i].name, list[i].needed.String(), list[i].left.String()))
		}
	}
	text := fmt.Sprintf("request %s is short of %s", have.next.name, join(words))
	if len(with) > 0 {
		text = "with " + strings.Join(with, " and ") + " served, " + text
	}
	return text
}

func isLess(a, b resource.Quantity) bool { return a.Cmp(b) < 0 }
