package inventory

import (
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	v1 "k8s.io/api/core/v1"
)

// OnNode returns the pools that the node sees in the order in which their devices are tried: by
// driver and name, with pools with binding conditions last, because a device that still has to be
// attached is the worse choice (KEP-5007).
func (s *Store) OnNode(node *v1.Node) []*NodePool {
	shared := s.sharedOn(node)
	keys := s.nodes.localPools(node.Name)
	views := make([]*NodePool, 0, len(keys)+len(shared))
	for _, key := range keys {
		order := 1
		for len(shared) > 0 && order > 0 {
			if order = key.Value().Compare(shared[0].ID); order > 0 {
				views = append(views, shared[0])
				shared = shared[1:]
			}
		}
		if len(shared) > 0 && order == 0 {
			continue // The pool has slices of both kinds, and comes with the shared pools.
		}
		views = s.appendView(views, key, node)
	}
	return conditionsLast(append(views, shared...))
}

// OwnPools is OnNode for the pools with a slice for this node alone.
func (s *Store) OwnPools(node *v1.Node) []*NodePool {
	keys := s.nodes.localPools(node.Name)
	views := make([]*NodePool, 0, len(keys))
	for _, key := range keys {
		views = s.appendView(views, key, node)
	}
	return conditionsLast(views)
}

// appendView appends the node's view of a pool, if it sees the pool.
func (s *Store) appendView(views []*NodePool, key PoolKey, node *v1.Node) []*NodePool {
	if pool := s.pool(key); pool != nil { // Otherwise it was removed since the index was loaded.
		if view := pool.OnNode(node); view != nil {
			return append(views, view)
		}
	}
	return views
}

// conditionsLast moves pools with binding conditions behind the others.
func conditionsLast(views []*NodePool) []*NodePool {
	has := func(view *NodePool) bool { return view.BindingConditions }
	if !slices.ContainsFunc(views, has) {
		return views
	}
	slices.SortStableFunc(views, func(a, b *NodePool) int {
		return map[bool]int{true: 1}[has(a)] - map[bool]int{true: 1}[has(b)]
	})
	return views
}

// sharedViews caches the views that nodes have of pools that are not for one node alone, until one
// of these changes. There can be one such pool for each rack.
type sharedViews struct {
	onNode sync.Map // name of the node to *seenBy
	count  atomic.Int64
}

// seenBy holds a node's views, in the order of the pools. It does not keep deleted nodes in memory.
type seenBy struct {
	node  weak.Pointer[v1.Node]
	views []*NodePool
}

// maxSeenBy limits the number of cached nodes. It is more than a cluster has, unless nodes come and
// go all the time.
const maxSeenBy = 1 << 17

// sharedOn returns the node's views of pools that are not for one node alone.
func (s *Store) sharedOn(node *v1.Node) []*NodePool {
	known := s.shared.Load()
	seen, found := known.onNode.Load(node.Name)
	if found && seen.(*seenBy).node.Value() == node {
		return seen.(*seenBy).views
	}
	keys := *s.nodes.shared.Load()
	if len(keys) == 0 {
		return nil
	}
	now := &seenBy{node: weak.Make(node)}
	for _, key := range keys {
		now.views = s.appendView(now.views, key, node)
	}
	if !found && known.count.Add(1) > maxSeenBy {
		s.shared.CompareAndSwap(known, new(sharedViews))
	}
	known.onNode.Store(node.Name, now)
	return now.views
}
