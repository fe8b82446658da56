package whatif

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// extra holds the pools whose slices differ between a snapshot and its world. nil has none.
type extra struct {
	store *inventory.Store
	// pools holds all slices of these pools.
	pools map[inventory.PoolID][]*resourceapi.ResourceSlice
}

func (e *extra) has(id inventory.PoolID) bool {
	if e == nil {
		return false
	}
	_, has := e.pools[id]
	return has
}

// withSlices returns the extra pools with more slices; a slice replaces one of the same name.
func (w *world) withSlices(before *extra, added []*resourceapi.ResourceSlice) *extra {
	if len(added) == 0 {
		return before
	}
	pools := make(map[inventory.PoolID][]*resourceapi.ResourceSlice)
	if before != nil {
		maps.Copy(pools, before.pools)
	}
	poolBefore := before.poolByName(w.poolByName())
	added = named(added, func(name string) bool { _, known := poolBefore(name); return known })
	touched := make(map[inventory.PoolID]bool)
	replaced := make(map[string]bool, len(added))
	for _, slice := range added {
		touched[poolOf(slice)], replaced[slice.Name] = true, true
		if id, known := poolBefore(slice.Name); known {
			touched[id] = true // The replaced slice may be of another pool.
		}
	}
	for id := range touched {
		known, isKnown := pools[id]
		if !isKnown {
			known = w.byPool()[id]
		}
		pools[id] = slices.DeleteFunc(slices.Clone(known), func(old *resourceapi.ResourceSlice) bool { return replaced[old.Name] })
	}
	for _, slice := range added {
		pools[poolOf(slice)] = append(pools[poolOf(slice)], slice)
	}
	var published []*resourceapi.ResourceSlice
	for _, of := range pools {
		published = append(published, of...)
	}
	return &extra{store: newStore(published, w.rules), pools: pools}
}

// poolByName returns a function that finds the pool of a slice. ofWorld has the pools of the
// world's slices.
func (e *extra) poolByName(ofWorld map[string]inventory.PoolID) func(name string) (inventory.PoolID, bool) {
	own := make(map[string]inventory.PoolID)
	if e != nil {
		for id, all := range e.pools {
			for _, slice := range all {
				own[slice.Name] = id
			}
		}
	}
	return func(name string) (inventory.PoolID, bool) {
		if id, known := own[name]; known {
			return id, true
		}
		id, known := ofWorld[name]
		return id, known && !e.has(id)
	}
}

// named gives unnamed slices a unique name. They do not come from a server, and would otherwise
// count as the same slice.
func named(all []*resourceapi.ResourceSlice, known func(name string) bool) []*resourceapi.ResourceSlice {
	if !slices.ContainsFunc(all, func(s *resourceapi.ResourceSlice) bool { return s.Name == "" }) {
		return all
	}
	own := make(map[string]bool, len(all))
	for _, slice := range all {
		own[slice.Name] = true
	}
	result, number := slices.Clone(all), 0
	for i, slice := range all {
		if slice.Name != "" {
			continue
		}
		slice = slice.DeepCopy()
		for slice.Name == "" || own[slice.Name] || known(slice.Name) {
			slice.Name = fmt.Sprintf("unnamed slice %d of pool %s", number, poolOf(slice))
			number++
		}
		own[slice.Name], result[i] = true, slice
	}
	return result
}

// poolsOn returns the pools that a node sees. asBefore reports whether the pools and their usage
// are those of the world.
func (s *Snapshot) poolsOn(node *v1.Node) (pools []*inventory.NodePool, asBefore bool) {
	i, known := s.world.index[node.Name]
	if known && s.world.nodes[i].node == node {
		pools, asBefore = s.world.poolsAt(i), true
	} else {
		pools = s.world.store.OnNode(node)
	}
	if s.extra != nil {
		if more := s.extra.store.OnNode(node); len(more) > 0 || slices.ContainsFunc(pools, func(p *inventory.NodePool) bool { return s.extra.has(p.ID) }) {
			pools, asBefore = s.exchanged(pools, more), false
		}
	}
	if asBefore && len(s.usage.changed) > 0 {
		for _, pool := range pools {
			if s.usage.changed[pool.ID] != nil {
				return pools, false
			}
		}
	}
	return pools, asBefore
}

// exchanged replaces pools by extra ones. The order is that of inventory.Store.OnNode.
func (s *Snapshot) exchanged(pools, more []*inventory.NodePool) []*inventory.NodePool {
	all := slices.DeleteFunc(slices.Clone(pools), func(p *inventory.NodePool) bool { return s.extra.has(p.ID) })
	all = append(all, more...)
	slices.SortFunc(all, func(a, b *inventory.NodePool) int {
		if late := a.BindingConditions; late != b.BindingConditions {
			if late {
				return 1
			}
			return -1
		}
		return a.ID.Compare(b.ID)
	})
	return all
}
