package inventory

import (
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	v1 "k8s.io/api/core/v1"
)

// OnNode returns the pools that the node sees in the order in which their devices
// are tried: by driver and name, those with binding conditions after all others
// because a device that still has to be attached is the worse choice (KEP-5007).
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
			continue // It has slices of both sorts, and comes with the shared ones.
		}
		views = s.appendView(views, key, node)
	}
	return conditionsLast(append(views, shared...))
}

// OwnPools is OnNode without pools that are not for the node alone.
func (s *Store) OwnPools(node *v1.Node) []*NodePool {
	keys := s.nodes.localPools(node.Name)
	views := make([]*NodePool, 0, len(keys))
	for _, key := range keys {
		views = s.appendView(views, key, node)
	}
	return conditionsLast(views)
}

// appendView appends what a node sees of a pool, if anything.
func (s *Store) appendView(views []*NodePool, key PoolKey, node *v1.Node) []*NodePool {
	if pool := s.pool(key); pool != nil { // Else it was removed since we loaded the index.
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

// sharedViews remembers what nodes see of pools that are not for one node alone, as long as none of these changes: there can be
// one for each rack.
type sharedViews struct {
	onNode sync.Map // name of the node to *seenBy
	count  atomic.Int64
}

// seenBy is what a node sees, in the order of the pools. Nodes that are gone are not kept alive.
type seenBy struct {
	node  weak.Pointer[v1.Node]
	views []*NodePool
}

// maxSeenBy is how many nodes are remembered: more than there are, unless nodes come and go all the time.
const maxSeenBy = 1 << 17

// sharedOn returns what the node sees of pools that are not for one node alone.
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
