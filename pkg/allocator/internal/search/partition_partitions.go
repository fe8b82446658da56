package search

import (
	"encoding/binary"
	"slices"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Partitions describes how the devices of a pool draw from its counter sets.
//
// Counter sets are of the same kind if their devices draw the same, one by one, and from no other set:
// typically the GPUs of a node with their partitions. As long as two of them are in the same state, they are
// interchangeable with all their devices, so that a search that failed with one need not try another.
type Partitions struct {
	// Pattern numbers devices: equal for devices that draw the same amounts with the same compatibility
	// groups. For devices that draw from one set, it does not matter from which.
	Pattern []int
	Users   [][]int // by set: positions of the devices that draw from it, ascending
	Alone   []bool  // by set: whether its users draw from no other set
}

// partitionsKey is the key of a pool's partitions.
type partitionsKey struct{}

// Of returns the partitions of a pool.
func Of(pool *inventory.NodePool) *Partitions {
	return inventory.Cached(&pool.Derived, partitionsKey{}, func() *Partitions { return newPartitions(pool) })
}

func newPartitions(pool *inventory.NodePool) *Partitions {
	counters := pool.Counters
	p := &Partitions{
		Pattern: make([]int, len(pool.Devices)), Users: make([][]int, len(counters.Sets)), Alone: make([]bool, len(counters.Sets)),
	}
	for i := range p.Alone {
		p.Alone[i] = true
	}
	patterns := make(map[string]int)
	for device := range pool.Partitions.All() {
		draws := counters.Draws(device)
		pattern := string(appendPattern(nil, &pool.Devices[device], draws))
		if _, found := patterns[pattern]; !found {
			patterns[pattern] = len(patterns)
		}
		p.Pattern[device] = patterns[pattern]
		for _, draw := range draws {
			p.Users[draw.Set] = append(p.Users[draw.Set], device)
			p.Alone[draw.Set] = p.Alone[draw.Set] && len(draws) == 1
		}
	}
	return p
}

// appendPattern encodes the draws of a device.
func appendPattern(b []byte, device *inventory.Device, draws []inventory.Draw) []byte {
	for i, consumption := range device.ConsumesCounters {
		if len(draws) > 1 {
			b = binary.AppendVarint(b, int64(draws[i].Set))
		}
		b = draws[i].AppendTo(b)
		for _, group := range slices.Sorted(slices.Values(consumption.CompatibilityGroups)) {
			b = append(binary.AppendVarint(b, int64(len(group))), group...)
		}
		b = append(b, ';')
	}
	return b
}
