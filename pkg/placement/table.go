package placement

import (
	"math"
	"sync/atomic"
)

const (
	// steps is how finely parts of a device are told apart.
	steps = 100
	// patience is how many pods are expected to come until a part of a device has to be given to one of them. The more, the better
	// does the best of them fit. With 1, whoever comes next gets it; without end, each part would be kept for what fits exactly,
	// however rare that is. From 32 to 64 the simulation is at its best, and hardly changes.
	patience = 64
	// slack keeps what was rounded in decimal from being rounded up once more.
	slack = 1e-9
)

// table says for a device what of each part that may be left of it (in steps) is expected to be used in the end, in whole devices.
type table struct {
	shapes uint64 // whose requests count
	kinds  uint64 // which of their requests
	size   int    // of the device, in steps
	used   [steps + 1]float64
}

// tables remembers tables of a demand. A slot keeps the last table that was computed for it, so there is a bound, and a table that
// was dropped is computed again, with the same result.
type tables struct {
	slots [512]atomic.Pointer[table]
}

// table returns the table of a device of this size, if pods of these shapes may come, and it satisfies requests of these kinds.
func (d *Demand) table(shapes, kinds uint64, size int) *table {
	slot := &d.memo.slots[hash(shapes, kinds, size)%uint64(len(d.memo.slots))]
	if t := slot.Load(); t != nil && t.shapes == shapes && t.kinds == kinds && t.size == size {
		return t
	}
	t := d.compute(shapes, kinds, size)
	slot.Store(t)
	return t
}

func hash(shapes, kinds uint64, size int) uint64 {
	h := (shapes ^ uint64(size)<<57) * 0x9e3779b97f4a7c15
	h = (h ^ h>>29 ^ kinds) * 0xbf58476d1ce4e5b9
	return h ^ h>>32
}

// compute fills a table from small parts to large ones: of a number of pods that come, the one gets the part that makes most of it,
// together with what is left then.
func (d *Demand) compute(shapes, kinds uint64, size int) *table {
	t := &table{shapes: shapes, kinds: kinds, size: size}
	weights := d.amounts(shapes, kinds, size)
	type candidate struct{ used, weight float64 }
	var candidates [steps]candidate
	for part := 1; part <= size; part++ {
		n := 0
		for amount := 1; amount <= part; amount++ {
			if weights[amount] == 0 {
				continue
			}
			c := candidate{float64(amount)/steps + t.used[part-amount], weights[amount]}
			i := n
			for ; i > 0 && candidates[i-1].used < c.used; i-- {
				candidates[i] = candidates[i-1]
			}
			candidates[i] = c
			n++
		}
		better, none := 0.0, 1.0
		for _, c := range candidates[:n] {
			better = min(1, better+c.weight)
			still := math.Pow(1-better, patience)
			t.used[part] += (none - still) * c.used
			none = still
		}
	}
	return t
}

// amounts returns how likely a pod that comes asks for which part of the device, in steps.
func (d *Demand) amounts(shapes, kinds uint64, size int) (weights [steps + 1]float64) {
	for i := range d.Shapes {
		if shapes>>i&1 == 0 {
			continue
		}
		for _, r := range d.Shapes[i].Requests {
			if kinds>>r.Kind&1 == 0 {
				continue
			}
			amount := size
			if r.Amount > 0 {
				amount = max(1, int(math.Ceil(r.Amount*steps-slack)))
			}
			if amount <= size {
				weights[amount] += d.Shapes[i].Weight * float64(r.Count)
			}
		}
	}
	return weights
}
