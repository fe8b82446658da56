// Package placed has a plugin know in which domain it is being tried whether a PodGroup fits. kube-scheduler
// only limits the nodes: where nodes are in several domains, because their devices are, whoever allocates
// devices has to leave out those of the other domains. PreFilter, for which all nodes are listed, is not even
// told to which of them a placement is limited.
package placed

import (
	"errors"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Domain is where the pods of a group are to be.
type Domain struct {
	Key  domain.Key
	Name string
}

// Placements are those of a group that are in one domain.
type Placements struct {
	// Listed are in the order in which kube-scheduler tries them.
	Listed []*fwk.Placement
	// Domains are by placement.
	Domains map[*fwk.Placement]Domain
}

// Place is where it is being tried whether a pod fits. The zero Place is all nodes with all devices.
type Place struct {
	// Domain is zero if the pod is not scheduled with a group, or if its group has no wish or is tried without.
	Domain Domain
	// SomeNodes is true if the pod's group is limited to some nodes, for a domain or by constraints of the API.
	SomeNodes bool
}

// SomeDevices reports whether the pod's group is limited to some of the devices of nodes.
func (p Place) SomeDevices() bool { return p.Domain.Key.Attribute != "" }

// Pools returns what a node reaches of the pools that it sees, for the pod.
func (p Place) Pools(pools []*inventory.NodePool) []*inventory.NodePool {
	if !p.SomeDevices() {
		return pools
	}
	return domain.Within(p.Domain.Key, p.Domain.Name, pools)
}

// stateKey is where Placements are in the state of a group, and current in that of a placement.
const stateKey fwk.StateKey = "QuartermasterGangs/placed"

// told is Placements while the group is tried.
type told struct {
	Placements
	// wholes is how many placements with all nodes were met.
	wholes int
}

// Clone implements fwk.StateData.
func (t *told) Clone() fwk.StateData { return t }

// current is what was found out about a placement.
type current struct{ domain Domain }

// Clone implements fwk.StateData.
func (c *current) Clone() fwk.StateData { return c }

// Tell has Current know the placements of a group.
func Tell(state fwk.PodGroupCycleState, placements Placements) {
	state.Write(stateKey, &told{Placements: placements})
}

// snapshot is what kube-scheduler's snapshot has besides fwk.SharedLister.
type snapshot interface {
	// GetPlacement is nil if all nodes are looked at.
	GetPlacement() *fwk.Placement
}

// Current returns where it is being tried whether the pod fits.
//
// It has to be called first while the placement is being tried, and not in parallel, as in PreFilter.
// Later the pod may still need the answer, in Reserve above all: keep it in the pod's state.
func Current(lister fwk.SharedLister, state fwk.CycleState) Place {
	group := state.GetPodGroupSchedulingCycle()
	limited, ok := lister.(snapshot)
	if group == nil || !ok {
		return Place{}
	}
	assumed := limited.GetPlacement()
	place := Place{SomeNodes: assumed != nil}
	placement := state.GetPlacementCycleState()
	if placement == nil {
		return place
	}
	known, err := read[*current](placement.Read)
	if err != nil {
		known = &current{find(lister, group, assumed)}
		placement.Write(stateKey, known)
	}
	place.Domain = known.domain
	return place
}

func find(lister fwk.SharedLister, group fwk.PodGroupCycleState, assumed *fwk.Placement) Domain {
	placements, err := read[*told](group.Read)
	if err != nil {
		return Domain{}
	}
	if assumed == nil {
		assumed = placements.nextWhole(lister)
	}
	return placements.Domains[assumed]
}

// nextWhole returns the next placement with all nodes, which the snapshot does not tell from none. Should
// one of those before it never have been asked for, it is taken for that: both have the same nodes, so
// that any of their domains is right, as long as all pods get the same.
func (t *told) nextWhole(lister fwk.SharedLister) *fwk.Placement {
	all, err := lister.NodeInfos().List()
	if err != nil {
		return nil
	}
	met := 0
	for _, placement := range t.Listed {
		if len(placement.Nodes) != len(all) {
			continue
		}
		if met == t.wholes {
			t.wholes++
			return placement
		}
		met++
	}
	return nil
}

// read returns what is stored of a type.
func read[T any](from func(fwk.StateKey) (fwk.StateData, error)) (T, error) {
	var none T
	data, err := from(stateKey)
	if err != nil {
		return none, err
	}
	stored, ok := data.(T)
	if !ok {
		return none, errors.New("something else is stored under " + string(stateKey))
	}
	return stored, nil
}
