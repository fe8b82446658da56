package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/search"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
)

// satisfied holds claims and requests that have a solution together, one such solution, and the first request
// that has none in addition.
type satisfied struct {
	next    *task.Slot
	had     int      // number of devices that next could have
	names   []string // names of everything before next: claims, or requests of its own claim
	results []resourceapi.AllocationResult
}

// satisfy finds out, with small searches, how many of the claims and requests have a solution together, in
// their order and without their constraints. It returns nil if that would take too long, or if all have one.
func (q inquiry) satisfy(claims []*task.Claim) *satisfied {
	last := claims[len(claims)-1]
	var before []*resourceapi.ResourceClaim
	for _, c := range claims[:len(claims)-1] {
		before = append(before, unconstrained(c))
	}
	found := &satisfied{}
	if len(before) > 0 {
		results, answer := q.attempt(before...)
		if answer != yes {
			return nil
		}
		found.results, found.names = results, []string{claimNames(claims[:len(claims)-1])}
	}
	for i := range last.Slots {
		cut := unconstrained(last)
		cut.Spec.Devices.Requests = cut.Spec.Devices.Requests[:i+1]
		results, answer := q.attempt(append(slices.Clone(before), cut)...)
		switch answer {
		case unknown:
			return nil
		case no:
			found.next = &last.Slots[i]
			if i > 0 {
				found.names = append(found.names, search.Requests(slotNames(last.Slots[:i])))
			}
			q.satisfySome(found, before, cut)
			return found
		}
		found.results = results
	}
	return nil
}

// satisfySome gives the last request of a claim as many devices as possible, but not all.
func (q inquiry) satisfySome(found *satisfied, before []*resourceapi.ResourceClaim, cut *resourceapi.ResourceClaim) {
	exactly := cut.Spec.Devices.Requests[len(cut.Spec.Devices.Requests)-1].Exactly
	if exactly == nil || found.next.Alternatives[0].All() {
		return
	}
	for wanted := exactly.Count; int64(found.had)+1 < wanted; found.had++ {
		exactly.Count = int64(found.had) + 1
		results, answer := q.attempt(append(slices.Clone(before), cut)...)
		if answer != yes {
			return
		}
		found.results = results
	}
}

func slotNames(slots []task.Slot) []string {
	var names []string
	for i := range slots {
		names = append(names, slots[i].Name)
	}
	return names
}

// drained is a counter with too little left after some requests were satisfied.
type drained struct {
	shortfall
	// devices is the number of remaining devices that the counter excludes.
	devices int
}

// drainedBy returns the counters that exclude devices for the next request, those that exclude most first. ok
// is false if there are devices that no counter excludes.
func (q inquiry) drainedBy(have *satisfied) (list []drained, ok bool) {
	chosen, counters := q.chosenIn(have.results), make(map[string]*drained)
	left := q.leftAfter(chosen)
	for _, r := range have.next.Alternatives {
		for _, in := range q.inspect(r) {
			for device := range in.selection.Matches.All() {
				if chosen[deviceIndex{in.index, device}] || in.cause(device) != Available {
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

// addDrained counts a device for the counters that exclude it, and reports whether there are any. It keeps
// the least shortfall of each counter.
func (in *inspection) addDrained(counters map[string]*drained, device int, left []quantity.Amount) bool {
	any := false
	formats := in.pool.Counters
	for _, draw := range formats.Draws(device) {
		for number, needed := range draw.All() {
			if left[number].Covers(needed) {
				continue
			}
			any = true
			name := formats.Names[number]
			short := shortfall{name, needed.Quantity(formats.Formats[number]), left[number].Quantity(formats.Formats[number]), in.there(number)}
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

// chosenIn returns the places of the devices in results.
func (q inquiry) chosenIn(results []resourceapi.AllocationResult) map[deviceIndex]bool {
	chosen := make(map[deviceIndex]bool)
	for i := range results {
		for _, result := range results[i].Devices.Results {
			for index, pool := range q.Pools() {
				if pool.ID.Driver != result.Driver || pool.ID.Name != result.Pool {
					continue
				}
				for device := range pool.Devices {
					if pool.Devices[device].Name == result.Device {
						chosen[deviceIndex{index, device}] = true
					}
				}
			}
		}
	}
	return chosen
}

// leftAfter returns the remaining amounts of the counters, by pool, after the draws of the chosen devices.
func (q inquiry) leftAfter(chosen map[deviceIndex]bool) [][]quantity.Amount {
	left := make([][]quantity.Amount, len(q.Pools()))
	for index, pool := range q.Pools() {
		if pool.Counters != nil {
			left[index] = slices.Clone(q.Usage(index).Remaining(pool).Amounts)
		}
	}
	for at := range chosen {
		if q.CanShare(at.pool, at.device) && q.InUse(at.pool, at.device) {
			continue // Its counters are accounted for already.
		}
		draws := q.Pools()[at.pool].Counters.Draws(at.device)
		for i := range draws {
			draws[i].TakeFrom(left[at.pool])
		}
	}
	return left
}

// counterNames returns the names, without their sets, of the counters that exclude most devices.
func counterNames(list []drained) []string {
	var names []string
	for i := range list {
		if list[i].devices == list[0].devices {
			names = append(names, list[i].name)
		}
	}
	return names
}

// detail describes the amounts that the next request lacks of the counters.
func (have *satisfied) detail(list []drained) string {
	var with, parts []string
	with = append(with, have.names...)
	if have.had > 0 {
		with = append(with, search.Plural(have.had, "device", "devices")+" of its own")
	}
	for i := range list {
		if list[i].devices == list[0].devices && len(parts) < search.NamedAtMost {
			parts = append(parts, fmt.Sprintf("%s (%s asked and at most %s left)", list[i].name, list[i].needed.String(), list[i].left.String()))
		}
	}
	text := fmt.Sprintf("request %s is short of %s", have.next.Name, search.Join(parts))
	if len(with) > 0 {
		text = "with " + strings.Join(with, " and ") + " allocated " + text
	}
	return text
}

func isLess(a, b resource.Quantity) bool { return quantity.Compare(a, b) < 0 }
