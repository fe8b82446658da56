package devicemetrics

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// valuesPerLabel is how many drivers, and how many classes, have series of their own: the first ones by name. All
// others are together in one, of which the value is rest.
const (
	valuesPerLabel = 50
	rest           = "other"
)

// driverSum is what the pools of a driver have together.
type driverSum struct {
	// kinds are those of which there are pools.
	kinds   [kindCount]bool
	devices [kindCount][stateCount]int
	pools   [kindCount][len(poolStates)]int
	// freeOn is how many devices of pools of kind ofNode are free on nodes; byRoom how many of these there are on nodes
	// with so many, and most the greatest number on one node.
	freeOn map[string]int
	byRoom [len(rooms)]int
	most   int
}

// rooms are ranges of how many devices are free on a node: from each number up to the next one.
var rooms = [...]struct {
	from int
	name string
}{{1, "1"}, {2, "2-3"}, {4, "4-7"}, {8, "8-15"}, {16, "16+"}}

// roomOf returns the index in rooms.
func roomOf(free int) int {
	i := len(rooms) - 1
	for rooms[i].from > free {
		i--
	}
	return i
}

// add adds pools.
func (s *driverSum) add(c *poolCount) {
	s.kinds[c.kind] = true
	s.pools[c.kind][c.state]++
	for state, n := range c.devices {
		s.devices[c.kind][state] += n
	}
	if n := c.devices[free]; c.kind == ofNode && n > 0 {
		if s.freeOn == nil {
			s.freeOn = make(map[string]int)
		}
		s.freeOn[c.node] += n
	}
}

// settle finds out about rooms when all pools were added.
func (s *driverSum) settle() {
	for _, n := range s.freeOn {
		s.byRoom[roomOf(n)] += n
		s.most = max(s.most, n)
	}
	s.freeOn = nil
}

// merge adds what a driver has that has no series of its own.
func (s *driverSum) merge(other *driverSum) {
	for kind := range s.kinds {
		s.kinds[kind] = s.kinds[kind] || other.kinds[kind]
		for state, n := range other.devices[kind] {
			s.devices[kind][state] += n
		}
		for state, n := range other.pools[kind] {
			s.pools[kind][state] += n
		}
	}
	for room, n := range other.byRoom {
		s.byRoom[room] += n
	}
	s.most = max(s.most, other.most)
}

// byDriver sums up counts. Nodes of the same name in several clusters would count as one, but no process schedules two.
func byDriver(all []counts) map[string]*driverSum {
	sums := make(map[string]*driverSum)
	for _, counts := range all {
		for key, c := range counts {
			driver := driverOf(key)
			if sums[driver] == nil {
				sums[driver] = new(driverSum)
			}
			sums[driver].add(c)
		}
	}
	for _, sum := range sums {
		sum.settle()
	}
	return bounded(sums, func(into, from *driverSum) *driverSum { into.merge(from); return into })
}

func driverOf(key inventory.PoolKey) string { return key.Value().Driver }

// bounded joins the values of all but the first names.
func bounded[T any](sums map[string]T, join func(into, from T) T) map[string]T {
	if len(sums) <= valuesPerLabel {
		return sums
	}
	names := make([]string, 0, len(sums))
	for name := range sums {
		if name != rest {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	result := make(map[string]T, valuesPerLabel+1)
	if others, found := sums[rest]; found {
		result[rest] = others // Somebody is called like that.
	}
	for i, name := range names {
		into, found := result[rest]
		switch {
		case i < valuesPerLabel:
			result[name] = sums[name]
		case found:
			result[rest] = join(into, sums[name])
		default:
			result[rest] = sums[name]
		}
	}
	return result
}

// byClass counts what claims are allocated, by the class that the request was for.
func byClass(stores []cache.Indexer) map[string]int {
	sums := make(map[string]int)
	for _, store := range stores {
		for _, object := range store.List() {
			if claim, ok := object.(*resourceapi.ResourceClaim); ok {
				addClasses(sums, claim)
			}
		}
	}
	return bounded(sums, func(into, from int) int { return into + from })
}

// addClasses counts what a claim is allocated. Requests that there are not, which nobody but the scheduler writes, count
// for no class.
func addClasses(sums map[string]int, claim *resourceapi.ResourceClaim) {
	if claim.Status.Allocation == nil {
		return
	}
	for result := range ledger.Used(claim.Status.Allocation) {
		if class := classOf(claim, result.Request); class != "" {
			sums[class]++
		}
	}
}

// classOf returns the class of a request, or of an alternative of it ("request/alternative").
func classOf(claim *resourceapi.ResourceClaim, name string) string {
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		if request.Exactly != nil && request.Name == name {
			return request.Exactly.DeviceClassName
		}
		if len(name) <= len(request.Name) || name[:len(request.Name)] != request.Name || name[len(request.Name)] != '/' {
			continue
		}
		for j := range request.FirstAvailable {
			if request.FirstAvailable[j].Name == name[len(request.Name)+1:] {
				return request.FirstAvailable[j].DeviceClassName
			}
		}
	}
	return ""
}
