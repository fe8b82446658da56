package web

import (
	"math"
	"slices"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// counterSet is a counter set of a pool (KEP-4815).
type counterSet struct {
	pool *inventory.NodePool
	set  int
}

// addPart puts a device into its whole. A device that draws from several counter sets, or from none, is not a part.
func addPart(layout *Layout, wholes map[counterSet]int, p deviceOfPool, at int) int {
	if p.pool.Counters == nil || !p.pool.Partitions.Has(p.device) {
		return -1
	}
	draws := p.pool.Counters.Draws(p.device)
	if len(draws) != 1 {
		return -1
	}
	key := counterSet{p.pool, draws[0].Set}
	number, known := wholes[key]
	if !known {
		number = len(layout.Wholes)
		wholes[key] = number
		layout.Wholes = append(layout.Wholes, Whole{Name: p.pool.Counters.Sets[key.set], Device: -1})
	}
	if layout.Wholes[number].Device < 0 && takesAll(p.pool.Counters, draws[0]) {
		layout.Wholes[number].Device = at
	}
	return number
}

// takesAll reports whether the device consumes all counters of a set, as a whole GPU does.
func takesAll(counters *inventory.Counters, draw inventory.Draw) bool {
	first, end := counters.Range(draw.Set)
	taken := 0
	for number, consumed := range draw.All() {
		if !consumed.Covers(counters.Published[number]) {
			return false
		}
		taken++
	}
	return taken == end-first
}

// dissolve removes wholes with fewer than two parts.
func dissolve(layout *Layout) {
	count := make([]int, len(layout.Wholes))
	for _, whole := range layout.Parts {
		if whole >= 0 {
			count[whole]++
		}
	}
	numbers := make([]int, len(layout.Wholes))
	var kept []Whole
	for i, whole := range layout.Wholes {
		numbers[i] = -1
		if count[i] > 1 {
			numbers[i] = len(kept)
			kept = append(kept, whole)
		}
	}
	for at, whole := range layout.Parts {
		if whole >= 0 {
			layout.Parts[at] = numbers[whole]
		}
	}
	layout.Wholes = kept
}

// wholeLevels returns the used part of each whole in percent.
func (d *drawing) wholeLevels(from *sheet, layout *Layout) []int {
	if len(layout.Wholes) == 0 {
		return nil
	}
	levels := slices.Repeat([]int{-1}, len(layout.Wholes))
	for at, whole := range layout.Parts {
		if whole < 0 || levels[whole] >= 0 {
			continue
		}
		p := from.devices[at]
		left := ledger.Of(d.snapshot.Usage(), p.pool).Remaining(p.pool)
		levels[whole] = percentDrawn(p.pool.Counters, p.pool.Counters.Draws(p.device)[0].Set, left)
	}
	return levels
}

// percentDrawn returns the used part of a set's scarcest counter in percent.
func percentDrawn(counters *inventory.Counters, set int, left *ledger.Remaining) int {
	most := 0
	first, end := counters.Range(set)
	for number := first; number < end && number < len(left.Amounts); number++ {
		published := counters.Published[number].Float()
		if left.Amounts[number].IsNegative() {
			return 100
		}
		if published > 0 {
			most = max(most, percent(published-left.Amounts[number].Float(), published))
		}
	}
	return most
}

// level returns the used part of a shared device's scarcest capacity in percent.
func level(device *inventory.Device, shares []ledger.Share) int {
	most := 0
	for name, capacity := range device.Capacity {
		taken := 0.0
		for i := range shares {
			if consumed, ok := shares[i].Consumed[name]; ok {
				taken += quantity.Of(consumed).Float()
			}
		}
		if published := quantity.Of(capacity.Value).Float(); published > 0 {
			most = max(most, percent(taken, published))
		}
	}
	return most
}

// percent rounds up, so that a used device never looks free, and is at most 100, even if more is in use.
func percent(part, whole float64) int {
	return int(min(100, max(0, math.Ceil(100*part/whole-1e-9))))
}

// holders returns the sorted names of the claims that use a device, without duplicates.
func holders(use ledger.DeviceUsage) []string {
	var claims []string
	for _, holder := range use.Holders {
		claims = append(claims, holder.String())
	}
	for i := range use.Shares {
		claims = append(claims, use.Shares[i].Holder.String())
	}
	slices.Sort(claims)
	return slices.Compact(claims)
}
