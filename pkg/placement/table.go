package placement

import (
	"math"
	"sync/atomic"
)

const (
	// steps is the resolution of fractions of a device.
	steps = 100
	// patience is the number of pods that are expected to come before a part of a device must be given to one
	// of them. The larger it is, the better the best of them fits. With 1, the next pod gets the part;
	// without limit, each part would be kept for an exact fit, however rare that is. In the simulation,
	// results are best from 32 to 64 and hardly change there.
	patience = 64
	// slack keeps numbers that were rounded in decimal from being rounded up again.
	slack = 1e-9
)

// table holds, for each possible free part of a device (in steps), the amount expected to be used in the end,
// in whole devices.
type table struct {
	shapes uint64 // set of the shapes whose requests count
	kinds  uint64 // set of the kinds of their requests that count
	size   int    // of the device, in steps
	used   [steps + 1]float64
}

// tables caches tables of a demand. A slot keeps the last table that was computed for it, so the size is
// bounded; a dropped table is computed again, with the same result.
type tables struct {
	slots [512]atomic.Pointer[table]
}

// table returns the table of a device of this size, for pods of these shapes and requests of these kinds.
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

// compute fills a table from small parts to large ones. Of patience pods, the one that makes the most of the
// part, including its rest, gets it.
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

// amounts returns the likelihood that a pod requests each part of the device, in steps.
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
