package extended

import (
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// Offers tracks which nodes offer extended resources by device plugin. On all other nodes, devices
// decide whether a pod that asks for the resources can run there. It is safe for concurrent use.
type Offers struct {
	mutex   sync.Mutex
	nodes   map[v1.ResourceName]sets.Set[string]
	offered map[string][]v1.ResourceName // by node, sorted
}

// FollowOffers returns Offers that are kept up to date.
func FollowOffers(nodes cache.SharedIndexInformer) (*Offers, error) {
	offers := NewOffers()
	_, err := informer.AfterEvents(nodes, func(name string) {
		offers.Refresh(name, func() *v1.Node { return informer.Object[v1.Node](nodes.GetIndexer(), name) })
	})
	if err != nil {
		return nil, fmt.Errorf("watch which nodes offer extended resources: %w", err)
	}
	return offers, nil
}

// NewOffers returns Offers without nodes.
func NewOffers() *Offers {
	return &Offers{nodes: make(map[v1.ResourceName]sets.Set[string]), offered: make(map[string][]v1.ResourceName)}
}

// Refresh updates the offers of the node of that name. read returns the node, nil if it does not
// exist. It is called under a lock, so that the last call always applies the latest state.
func (o *Offers) Refresh(name string, read func() *v1.Node) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	offered := offersOf(read())
	before := o.offered[name]
	if slices.Equal(before, offered) {
		return
	}
	for _, resource := range before {
		if o.nodes[resource].Delete(name); o.nodes[resource].Len() == 0 {
			delete(o.nodes, resource)
		}
	}
	for _, resource := range offered {
		if o.nodes[resource] == nil {
			o.nodes[resource] = sets.New[string]()
		}
		o.nodes[resource].Insert(name)
	}
	if o.offered[name] = offered; len(offered) == 0 {
		delete(o.offered, name)
	}
}

// offersOf returns the extended resources that a node has in a non-zero amount; none if the node is
// nil.
func offersOf(node *v1.Node) []v1.ResourceName {
	if node == nil {
		return nil
	}
	var offered []v1.ResourceName
	for name, quantity := range node.Status.Allocatable {
		if !quantity.IsZero() && kube.IsDRAExtendedResourceName(name) {
			offered = append(offered, name)
		}
	}
	slices.Sort(offered)
	return offered
}

// On returns the nodes that offer any of those resources that have a class.
func (o *Offers) On(resources []Resource) sets.Set[string] {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	names := sets.New[string]()
	for _, resource := range resources {
		if resource.Class != nil {
			names = names.Union(o.nodes[resource.Name])
		}
	}
	return names
}
