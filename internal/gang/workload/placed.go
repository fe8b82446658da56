package workload

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// A Domain is the domain in which the pods of a group are tried.
type Chosen struct {
	Key  domain.Key
	Name string
}

// Placements holds the placements of a group.
type Placements struct {
	// Listed holds them in the order in which kube-scheduler tries them.
	Listed []*fwk.Placement
	// Domains holds the domains of those that are in a single domain.
	Domains map[*fwk.Placement]Chosen
}

// A Place limits where a pod is tried. The zero Place is all nodes with all devices.
type Place struct {
	// Chosen is zero if the pod is not scheduled with a group, or if its group has no wish or is tried without a
	// domain.
	Domain Chosen
	// SomeNodes is true if the pod's group is limited to some nodes, for a domain or by constraints of the API.
	SomeNodes bool
}

// SomeDevices reports whether the pod's group is limited to some of the devices of nodes.
func (p Place) SomeDevices() bool { return p.Domain.Key.Attribute != "" }

// Pools returns the node's pools, limited to the devices in the domain.
func (p Place) Pools(pools []*inventory.NodePool) []*inventory.NodePool {
	if !p.SomeDevices() {
		return pools
	}
	return domain.Within(p.Domain.Key, p.Domain.Name, pools)
}

// stateKey is the key of Placements in a group's cycle state, and of current in a placement's.
const stateKey fwk.StateKey = "QuartermasterGangs/placed"

// told holds Placements while the group is tried.
type told struct {
	Placements
	// wholes is the number of placements with all nodes seen so far.
	wholes int
}

// Clone implements fwk.StateData.
func (t *told) Clone() fwk.StateData { return t }

// current caches the domain of a placement.
type current struct{ domain Chosen }

// Clone implements fwk.StateData.
func (c *current) Clone() fwk.StateData { return c }

// Tell stores the placements of a group for Current.
func Tell(state fwk.PodGroupCycleState, placements Placements) {
	state.Write(stateKey, &told{Placements: placements})
}

// snapshot lists the methods that kube-scheduler's snapshot has in addition to fwk.SharedLister.
type snapshot interface {
	// GetPlacement returns nil if all nodes are used.
	GetPlacement() *fwk.Placement
}

// Current returns the Place in which the pod is being tried.
//
// The first call must happen while the placement is being tried, and not in parallel, for example in PreFilter. The pod
// may need the result later, above all in Reserve: keep it in the pod's cycle state.
func Current(lister fwk.SharedLister, state fwk.CycleState) Place {
	group := kube.PodGroupCycleState(state)
	limited, ok := lister.(snapshot)
	if group == nil || !ok {
		return Place{}
	}
	assumed := limited.GetPlacement()
	place := Place{SomeNodes: assumed != nil}
	placement := kube.PlacementCycleState(state)
	if placement == nil {
		return place
	}
	known, _ := kube.Stored[*current](placement, stateKey)
	if known == nil {
		known = &current{find(lister, group, assumed)}
		placement.Write(stateKey, known)
	}
	place.Domain = known.domain
	return place
}

func find(lister fwk.SharedLister, group fwk.PodGroupCycleState, assumed *fwk.Placement) Chosen {
	placements, _ := kube.Stored[*told](group, stateKey)
	if placements == nil {
		return Chosen{}
	}
	if assumed == nil {
		assumed = placements.nextWhole(lister)
	}
	return placements.Domains[assumed]
}

// nextWhole returns the next placement with all nodes: for the snapshot, these look like no placement. If Current was
// never called for an earlier one of these, nextWhole returns that one: both have the same nodes, so either domain is
// valid as long as all pods get the same.
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
