package eligibility

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
)

// kinds tells nodes apart by the extended resources that device plugins offer there.
type kinds struct {
	demand  *extended.Demand
	offered map[string]map[v1.ResourceName]int64
	// varies is set if a device plugin on any node offers one of the resources that devices can back.
	varies bool
}

func (d *Describer) kinds(demand *extended.Demand) *kinds {
	if d.offered == nil {
		d.offered, d.somewhere = make(map[string]map[v1.ResourceName]int64), sets.New[v1.ResourceName]()
		for _, info := range d.Nodes {
			scalars := info.GetAllocatable().GetScalarResources()
			if len(scalars) > 0 {
				d.offered[info.Node().Name] = scalars
			}
			for name, amount := range scalars {
				if amount > 0 {
					d.somewhere.Insert(name)
				}
			}
		}
	}
	varies := slices.ContainsFunc(extended.Backed(demand.Resources()), func(r extended.Resource) bool { return d.somewhere.Has(r.Name) })
	return &kinds{demand: demand, offered: d.offered, varies: varies}
}

// UsableOn implements devices.Allocated: it reports whether the pod may be on a node. It does not check resources that no devices can back;
// NodeResourcesFit does.
func (k *kinds) UsableOn(node *v1.Node) bool {
	variant, _, err := k.demand.On(k.offered[node.Name])
	return err != nil || variant.Unfit == nil
}

// On implements devices.Variants: it implements devices.Made.On.
func (k *kinds) On(node *v1.Node) (*resourceapi.ResourceClaim, string) {
	variant, kind, err := k.demand.On(k.offered[node.Name])
	if err != nil {
		return nil, ""
	}
	return variant.Claim, kind
}
