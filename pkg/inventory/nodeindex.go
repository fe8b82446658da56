package inventory

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// nodeIndex answers which pools a node may see: those with a slice for only that
// node, and those with a slice that is not for one node alone. Writers hold the
// store's mutex; readers load immutable, sorted lists.
type nodeIndex struct {
	// Number of slices a pool has for a node, and for more than one node.
	localCounts  map[string]map[PoolID]int
	sharedCounts map[PoolID]int

	local  *sync.Map // node name to []PoolID, never empty
	shared *atomic.Pointer[[]PoolID]
}

func newNodeIndex() nodeIndex {
	index := nodeIndex{
		localCounts:  make(map[string]map[PoolID]int),
		sharedCounts: make(map[PoolID]int),
		local:        &sync.Map{},
		shared:       &atomic.Pointer[[]PoolID]{},
	}
	index.shared.Store(&[]PoolID{})
	return index
}

// pools returns the pools that the node may see, sorted, each once.
func (x *nodeIndex) pools(node string) []PoolID {
	var local []PoolID
	if ids, found := x.local.Load(node); found {
		local = ids.([]PoolID)
	}
	shared := *x.shared.Load()
	switch {
	case len(shared) == 0:
		return local
	case len(local) == 0:
		return shared
	}
	merged := slices.Concat(local, shared)
	slices.SortFunc(merged, PoolID.Compare)
	return slices.Compact(merged)
}

// add counts a slice of the pool. An empty node means that it is not for one alone.
func (x *nodeIndex) add(node string, id PoolID) {
	counts := x.counts(node)
	counts[id]++
	if counts[id] == 1 {
		x.publish(node)
	}
}

// remove takes back an add.
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
	ids := slices.SortedFunc(maps.Keys(x.counts(node)), PoolID.Compare)
	switch {
	case node == "":
		x.shared.Store(&ids)
	case len(ids) == 0:
		x.local.Delete(node)
		delete(x.localCounts, node)
	default:
		x.local.Store(node, ids)
	}
}
