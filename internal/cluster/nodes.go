package cluster

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/nodecache"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// newNodeCache returns the node cache of a state.
func newNodeCache(s *State, nodes corelisters.NodeLister) *nodecache.Index {
	return nodecache.New(s.Inventory, s.Ledger, &s.Rooms, func(name string) *v1.Node {
		node, err := nodes.Get(name)
		if err != nil {
			return nil
		}
		return node
	})
}

// NodeChanged handles an event about a node. Only what decides where devices are usable matters.
func (s *State) NodeChanged(e informer.Event[v1.Node]) {
	if e.Before == nil || e.After == nil || !maps.Equal(e.Before.Labels, e.After.Labels) ||
		!slices.Equal(e.Before.Status.DeclaredFeatures, e.After.Status.DeclaredFeatures) {
		s.NodeCache.NodeChanged(e.Latest().Name)
	}
}
