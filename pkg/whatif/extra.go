package whatif

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// extra has the pools of which a snapshot has other slices than its world. nil has none.
type extra struct {
	store *inventory.Store
	// pools has all their slices, by pool.
	pools map[inventory.PoolID][]*resourceapi.ResourceSlice
}

func (e *extra) has(id inventory.PoolID) bool {
	if e == nil {
		return false
	}
	_, has := e.pools[id]
	return has
}

// withSlices returns the extra pools with some slices more; one of a name that exists replaces it.
func (w *world) withSlices(before *extra, added []*resourceapi.ResourceSlice) *extra {
	if len(added) == 0 {
		return before
	}
	pools := make(map[inventory.PoolID][]*resourceapi.ResourceSlice)
	if before != nil {
		maps.Copy(pools, before.pools)
	}
	for id, more := range poolsOf(added) {
		known, isKnown := pools[id]
		if !isKnown {
			known = w.byPool()[id]
		}
		more = named(more, len(known))
		all := slices.DeleteFunc(slices.Clone(known), func(old *resourceapi.ResourceSlice) bool {
			return slices.ContainsFunc(more, func(s *resourceapi.ResourceSlice) bool { return s.Name == old.Name })
		})
		pools[id] = append(all, more...)
	}
	var published []*resourceapi.ResourceSlice
	for _, of := range pools {
		published = append(published, of...)
	}
	return &extra{store: newStore(published, w.rules, w.features), pools: pools}
}

// named gives slices of a pool a name that have none, because they do not come from a server: without one, they would
// be taken for the same slice. The names begin with a number.
func named(all []*resourceapi.ResourceSlice, first int) []*resourceapi.ResourceSlice {
	result := slices.Clone(all)
	for i, slice := range all {
		if slice.Name == "" {
			slice = slice.DeepCopy()
			slice.Name = fmt.Sprintf("unnamed slice %d of pool %s", first+i, poolOf(slice))
			result[i] = slice
		}
	}
	return result
}

// poolsOn returns the pools that a node sees, and whether these are those of the world for this node, with
// what is used of them there.
func (s *Snapshot) poolsOn(node *v1.Node) (pools []*inventory.NodePool, asBefore bool) {
	i, known := s.world.index[node.Name]
	if known && s.world.places[i].node == node {
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

// exchanged puts extra pools into the place of those that they replace. The order is that of
// inventory.Store.OnNode.
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
