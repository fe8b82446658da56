package inventory

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"unique"
)

// nodeIndex finds the pools that a node may see: those with a slice for only that node, and those
// with a slice that is not for one node alone. Writers hold the store's mutex; readers load
// immutable, sorted lists.
type nodeIndex struct {
	// localCounts and sharedCounts count the slices of a pool for one node, and for more than one.
	localCounts  map[string]map[PoolID]int
	sharedCounts map[PoolID]int

	local  *sync.Map // node name to []PoolKey, never empty
	shared *atomic.Pointer[[]PoolKey]
}

func newNodeIndex() nodeIndex {
	index := nodeIndex{
		localCounts:  make(map[string]map[PoolID]int),
		sharedCounts: make(map[PoolID]int),
		local:        &sync.Map{},
		shared:       &atomic.Pointer[[]PoolKey]{},
	}
	index.shared.Store(&[]PoolKey{})
	return index
}

// localPools returns the pools with a slice for only that node, sorted.
func (x *nodeIndex) localPools(node string) []PoolKey {
	keys, found := x.local.Load(node)
	if !found {
		return nil
	}
	return keys.([]PoolKey)
}

// add counts a slice of the pool. An empty node means that the slice is not for one node alone.
func (x *nodeIndex) add(node string, id PoolID) {
	counts := x.counts(node)
	counts[id]++
	if counts[id] == 1 {
		x.publish(node)
	}
}

// remove undoes an add.
func (x *nodeIndex) remove(node string, id PoolID) {
	counts := x.counts(node)
	counts[id]--
	if counts[id] == 0 {
		delete(counts, id)
		x.publish(node)
	}
}

func (x *nodeIndex) counts(node string) map[PoolID]int {
	if node == "" {
		return x.sharedCounts
	}
	if x.localCounts[node] == nil {
		x.localCounts[node] = make(map[PoolID]int)
	}
	return x.localCounts[node]
}

func (x *nodeIndex) publish(node string) {
	var keys []PoolKey
	for _, id := range slices.SortedFunc(maps.Keys(x.counts(node)), PoolID.Compare) {
		keys = append(keys, unique.Make(id))
	}
	switch {
	case node == "":
		x.shared.Store(&keys)
	case len(keys) == 0:
		x.local.Delete(node)
		delete(x.localCounts, node)
	default:
		x.local.Store(node, keys)
	}
}
