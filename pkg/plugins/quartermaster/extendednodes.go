package quartermaster

import (
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/util"
)

// nodeOffers knows which nodes offer extended resources by device plugin. On all others,
// the devices decide whether a pod that asks for them can run there.
type nodeOffers struct {
	mutex   sync.Mutex
	nodes   map[v1.ResourceName]sets.Set[string]
	offered map[string][]v1.ResourceName // by node, sorted
}

func newNodeOffers() *nodeOffers {
	return &nodeOffers{nodes: make(map[v1.ResourceName]sets.Set[string]), offered: make(map[string][]v1.ResourceName)}
}

// follow keeps it up to date.
func (o *nodeOffers) follow(nodes cache.SharedIndexInformer) error {
	_, err := afterEvents(nodes, func(name string) {
		o.refresh(name, func() *v1.Node { return fromStore[v1.Node](nodes.GetIndexer(), name) })
	})
	if err != nil {
		return fmt.Errorf("watch which nodes offer extended resources: %w", err)
	}
	return nil
}

func (o *nodeOffers) refresh(name string, read func() *v1.Node) {
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

// offersOf returns the extended resources that a node has any of; none if it is nil.
func offersOf(node *v1.Node) []v1.ResourceName {
	if node == nil {
		return nil
	}
	var offered []v1.ResourceName
	for name, quantity := range node.Status.Allocatable {
		if !quantity.IsZero() && util.IsDRAExtendedResourceName(name) {
			offered = append(offered, name)
		}
	}
	slices.Sort(offered)
	return offered
}

// offering returns the nodes that offer any of the resources for which there is a class.
func (o *nodeOffers) offering(resources []extendedResource) sets.Set[string] {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	names := sets.New[string]()
	for _, resource := range resources {
		if resource.class != nil {
			names = names.Union(o.nodes[resource.name])
		}
	}
	return names
}

// mayHaveDevices returns the nodes to look at, unless they are more than some number: those
// that are known to have devices, or might have, and for extended resources also those
// where a device plugin may have them.
func (pl *Quartermaster) mayHaveDevices(c *cycle, most int) sets.Set[string] {
	if c.extended == nil {
		if c.known == nil {
			return nil
		}
		names, _ := c.known.Names(most)
		return names
	}
	full := c.extended.full
	if full.known == nil || full.unfit != nil {
		return nil
	}
	names, few := full.known.Names(most)
	if !few {
		return nil
	}
	if names = names.Union(pl.state.offers.offering(c.extended.resources)); len(names) > most {
		return nil
	}
	return names
}
