package devices

import (
	"maps"
	"reflect"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// A plannedView is a view of the usage that includes the planned allocations of some units in some pools. It is cached
// because successive nodes are tried with the same units.
type plannedView struct {
	beside     []*unit
	pools      []inventory.PoolID
	base, view ledger.View
}

// plannedBut returns all units with planned allocations, except the given ones.
func (t *Trial) plannedBut(numbers ...int) (planned []*unit) {
	if t.Apart() {
		return nil
	}
	for _, number := range slices.Sorted(maps.Keys(t.units)) {
		if u := t.units[number]; u.results != nil && !slices.Contains(numbers, number) {
			planned = append(planned, u)
		}
	}
	return planned
}

// besides returns a site where the planned allocations of other units are in use.
func (t *Trial) besides(site allocator.NodeView, beside []*unit) allocator.NodeView {
	var pools []inventory.PoolID
	for _, pool := range site.Pools {
		if slices.ContainsFunc(beside, func(u *unit) bool { return slices.Contains(u.uses, pool.ID) }) {
			pools = append(pools, pool.ID)
		}
	}
	if len(pools) == 0 {
		return site
	}
	if !isSame(t.last.base, site.Usage) || !slices.Equal(t.last.pools, pools) || !slices.Equal(t.last.beside, beside) {
		t.last = plannedView{beside: slices.Clone(beside), pools: pools, base: site.Usage, view: withPlanned(site.Usage, pools, beside)}
	}
	site.Usage = t.last.view
	return site
}

// isSame reports whether two views are certain to be the same.
func isSame(a, b ledger.View) bool {
	return a != nil && reflect.TypeOf(a).Kind() == reflect.Pointer && a == b
}

// withPlanned returns the view with the units' planned allocations in some pools. It adds them as one claim, because
// each claim costs the ledger as much as many devices.
func withPlanned(base ledger.View, pools []inventory.PoolID, beside []*unit) ledger.View {
	planned := ledger.Use{Claim: ledger.ClaimRef{Name: "planned"}, Allocation: &resourceapi.AllocationResult{}}
	results := &planned.Allocation.Devices.Results
	for _, u := range beside {
		for i := range u.results {
			for device := range ledger.Used(&u.results[i]) {
				if slices.Contains(pools, ledger.PoolOf(device)) {
					*results = append(*results, *device)
				}
			}
		}
	}
	return ledger.WhatIf(base, nil, []ledger.Use{planned})
}
