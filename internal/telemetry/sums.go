package telemetry

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// valuesPerLabel bounds the drivers, and the classes, with their own series: the first ones by name. All others share
// one series with the label value rest.
const (
	valuesPerLabel = 50
	rest           = "other"
)

// driverSum has the sums over a driver's pools.
type driverSum struct {
	// kinds marks the kinds of the driver's pools.
	kinds   [kindCount]bool
	devices [kindCount][stateCount]int
	pools   [kindCount][len(poolStates)]int
	// freeOn has the number of free devices in pools of kind ofNode, by node. byRoom has the sums of these numbers by
	// range of rooms, and most the greatest number.
	freeOn map[string]int
	byRoom [len(rooms)]int
	most   int
}

// rooms are ranges of the number of free devices on a node: from each number up to the next one.
var rooms = [...]struct {
	from int
	name string
}{{1, "1"}, {2, "2-3"}, {4, "4-7"}, {8, "8-15"}, {16, "16+"}}

// roomOf returns the index of the range of a number.
func roomOf(free int) int {
	i := len(rooms) - 1
	for rooms[i].from > free {
		i--
	}
	return i
}

// add adds a pool.
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

// settle computes byRoom and most after all pools were added.
func (s *driverSum) settle() {
	for _, n := range s.freeOn {
		s.byRoom[roomOf(n)] += n
		s.most = max(s.most, n)
	}
	s.freeOn = nil
}

// merge adds a driver that has no series of its own.
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

// byDriver sums up counts by driver. Nodes with the same name in several clusters would count as one, but no process
// schedules for two clusters.
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

// bounded joins the values of all names beyond valuesPerLabel.
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
		result[rest] = others // A driver or class has that name.
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

// byClass counts allocated devices by the class of their request.
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

// addClasses counts the allocated devices of a claim. Results for unknown requests count for no class.
func addClasses(sums map[string]int, claim *resourceapi.ResourceClaim) {
	if claim.Status.Allocation == nil {
		return
	}
	for result := range ledger.Used(claim.Status.Allocation) {
		if class := dra.ClassOf(claim, result.Request); class != "" {
			sums[class]++
		}
	}
}
