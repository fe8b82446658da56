package explain

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// counterSets collects the counter sets with too little left.
type counterSets struct{ list []*counterSetUse }

// counterSetUse is a counter set under construction.
type counterSetUse struct {
	CounterSet
	drawers map[ledger.ClaimRef]map[string]bool
}

// add records a counter that does not suffice for a device, and the devices that draw on it.
func (c *counterSets) add(in *inspection, short *shortfall, drawing []string) {
	set, counter, _ := strings.Cut(short.name, "/")
	use := c.of(in.pool.ID.String(), set)
	use.addCounter(DrainedCounter{Name: counter, Needed: short.needed, Left: short.left})
	for _, device := range drawing {
		for _, claim := range in.users(device) {
			if use.drawers[claim] == nil {
				use.drawers[claim] = make(map[string]bool)
			}
			use.drawers[claim][device] = true
		}
	}
}

func (c *counterSets) of(pool, set string) *counterSetUse {
	for _, use := range c.list {
		if use.Pool == pool && use.Set == set {
			return use
		}
	}
	use := &counterSetUse{CounterSet{Pool: pool, Set: set}, make(map[ledger.ClaimRef]map[string]bool)}
	c.list = append(c.list, use)
	return use
}

// addCounter records a counter, with the least amount needed.
func (u *counterSetUse) addCounter(counter DrainedCounter) {
	for i := range u.Counters {
		if known := &u.Counters[i]; known.Name == counter.Name {
			if isLess(counter.Needed, known.Needed) {
				known.Needed = counter.Needed
			}
			return
		}
	}
	u.Counters = append(u.Counters, counter)
}

func (c *counterSets) sorted() []CounterSet {
	var list []CounterSet
	for _, use := range c.list {
		for claim, devices := range use.drawers {
			use.Claims = append(use.Claims, Drawer{Claim: claim, Devices: slices.Sorted(maps.Keys(devices))})
		}
		slices.SortFunc(use.Claims, func(a, b Drawer) int { return compareClaims(a.Claim, b.Claim) })
		slices.SortFunc(use.Counters, func(a, b DrainedCounter) int {
			return cmp.Or(cmp.Compare(part(&a), part(&b)), cmp.Compare(a.Name, b.Name))
		})
		list = append(list, use.CounterSet)
	}
	slices.SortFunc(list, func(a, b CounterSet) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Set, b.Set))
	})
	return list
}

// part returns the fraction that is left of the needed amount.
func part(c *DrainedCounter) float64 {
	if needed := quantity.Float(c.Needed); needed > 0 {
		return quantity.Float(c.Left) / needed
	}
	return -1 // Overdrawn, the worst case.
}

func compareClaims(a, b ledger.ClaimRef) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}
