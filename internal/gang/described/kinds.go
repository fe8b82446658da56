package described

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/extendedresource"
)

// kinds are the nodes as a demand for extended resources sees them.
type kinds struct {
	demand  *extendedresource.Demand
	offered map[string]map[v1.ResourceName]int64
	// varies is set if a device plugin offers any of the resources that devices can back, on some node.
	varies bool
}

func (d *Describer) kinds(demand *extendedresource.Demand) *kinds {
	if d.offered == nil {
		d.offered = make(map[string]map[v1.ResourceName]int64)
		for _, info := range d.Nodes {
			if scalars := info.GetAllocatable().GetScalarResources(); len(scalars) > 0 {
				d.offered[info.Node().Name] = scalars
			}
		}
	}
	k := &kinds{demand: demand, offered: d.offered}
	backed := extendedresource.Backed(demand.Resources())
	for _, scalars := range d.offered {
		for _, resource := range backed {
			k.varies = k.varies || scalars[resource.Name] > 0
		}
	}
	return k
}

// isFit reports whether the pod may be on a node. That a resource is not to be had there which no devices can back is
// NodeResourcesFit's to say.
func (k *kinds) isFit(node *v1.Node) bool {
	variant, _, err := k.demand.On(k.offered[node.Name])
	return err != nil || variant.Unfit == nil
}

// claim is that of trial.Made.
func (k *kinds) claim(node *v1.Node) (*resourceapi.ResourceClaim, string) {
	variant, kind, err := k.demand.On(k.offered[node.Name])
	if err != nil {
		return nil, ""
	}
	return variant.Claim, kind
}
