package extended

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

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

// NewOffers returns Offers without nodes.
func NewOffers() *Offers {
	return &Offers{nodes: make(map[v1.ResourceName]sets.Set[string]), offered: make(map[string][]v1.ResourceName)}
}

// NodeChanged handles an event about a node.
func (o *Offers) NodeChanged(e informer.Event[v1.Node]) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	name, offered := e.Latest().Name, offersOf(e.After)
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
