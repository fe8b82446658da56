package cluster

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/nodecache"
)

// followNodes tells the node cache about nodes.
func (s *State) followNodes(nodes coreinformers.NodeInformer) error {
	s.NodeCache = nodecache.New(s.Inventory, s.Ledger, &s.Rooms, func(name string) *v1.Node {
		node, err := nodes.Lister().Get(name)
		if err != nil {
			return nil
		}
		return node
	})
	changed := func(obj any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			s.NodeCache.NodeChanged(key)
		}
	}
	_, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed,
		UpdateFunc: func(before, after any) {
			old, wasNode := before.(*v1.Node)
			node, isNode := after.(*v1.Node)
			if !wasNode || !isNode || !maps.Equal(old.Labels, node.Labels) ||
				!slices.Equal(old.Status.DeclaredFeatures, node.Status.DeclaredFeatures) {
				changed(after)
			}
		},
		DeleteFunc: changed,
	})
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	return nil
}
