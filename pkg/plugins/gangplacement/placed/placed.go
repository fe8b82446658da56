// Package placed has a plugin know in which domain it is being tried whether a PodGroup fits. kube-scheduler
// only limits the nodes: where nodes are in several domains, because their devices are, whoever allocates
// devices has to leave out those of the other domains (domain.Blocked).
package placed

import (
	"errors"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
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
type current struct {
	domain Domain
	found  bool
}

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

// Current returns the domain in which it is being tried whether the pod's group fits. found is false if
// there is none: the pod is not scheduled with a group, the group has no wish, or it is tried without.
//
// It has to be called first while the placement is being tried, and not in parallel, as in PreFilter.
// Later the pod may still need the answer, in Reserve above all: keep it in the pod's state.
func Current(lister fwk.SharedLister, state fwk.CycleState) (Domain, bool) {
	group, placement := state.GetPodGroupSchedulingCycle(), state.GetPlacementCycleState()
	if group == nil || placement == nil {
		return Domain{}, false
	}
	if known, err := read[*current](placement.Read); err == nil {
		return known.domain, known.found
	}
	found := find(lister, group)
	placement.Write(stateKey, found)
	return found.domain, found.found
}

func find(lister fwk.SharedLister, group fwk.PodGroupCycleState) *current {
	placements, err := read[*told](group.Read)
	if err != nil {
		return &current{}
	}
	limited, ok := lister.(snapshot)
	if !ok {
		return &current{}
	}
	assumed := limited.GetPlacement()
	if assumed == nil {
		assumed = placements.nextWhole(lister)
	}
	domain, found := placements.Domains[assumed]
	return &current{domain, found}
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
