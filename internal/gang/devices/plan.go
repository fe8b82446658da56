package devices

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/gang/search"
)

// A Plan holds the nodes of a gang's pods and the allocations of their claims.
type Plan struct {
	Assignments []Assignment
	// Allocations holds the allocations of open claims, by UID.
	Allocations map[types.UID]*resourceapi.AllocationResult
}

// A Assignment is a pod on a node. Assignments are in the order of placement.
type Assignment struct {
	Pod   *v1.Pod
	Node  string
	Class int
	// Claims are the open claims of the pod. Made is the one among them that does not exist yet, nil if all exist.
	Claims []*resourceapi.ResourceClaim
	Made   *resourceapi.ResourceClaim
}

// Plan returns the plan for the pods that were added. Among the possible devices on a node, it takes the best by the
// node's objective.
func (t *Trial) Plan() (*Plan, error) {
	plan := &Plan{Allocations: make(map[types.UID]*resourceapi.AllocationResult)}
	for _, s := range t.steps {
		node := t.Nodes[s.node]
		assignment := Assignment{Pod: s.pod.Pod, Node: node.Name, Class: s.class}
		assignment.Claims, _ = s.pod.OpenOn(node)
		assignment.Made, _ = s.pod.madeOn(node)
		plan.Assignments = append(plan.Assignments, assignment)
	}
	for _, number := range slices.Sorted(maps.Keys(t.units)) {
		u := t.units[number]
		if len(u.claims) == 0 {
			continue
		}
		results, err := t.best(number)
		if err != nil {
			return nil, err
		}
		t.units[number] = u.with(results)
		if t.Books != nil && u.results != nil && !t.hasEnough(u) {
			results, t.units[number] = u.results, u
		}
		// Nodes share tasks, so results belong to claims by position only.
		for i, claim := range u.claims {
			plan.Allocations[claim.UID] = &results[i]
		}
	}
	return plan, nil
}

// best returns the best devices for a unit, given the plans of all others.
func (t *Trial) best(number int) ([]resourceapi.AllocationResult, error) {
	u, beside := t.units[number], t.plannedBut(number)
	if results, answer := t.find(u, t.Valued, beside, true); answer == search.Yes {
		return results, nil
	}
	if u.results != nil {
		return u.results, nil // The allocations from the trial suffice.
	}
	results, answer := t.find(u, t.Site, beside, true)
	if answer != search.Yes {
		return nil, fmt.Errorf("look for devices for the pods of the group on node %s: there were some a moment ago and now "+
			"there are none or it takes too long to find them; the pods are tried again", t.Nodes[u.nodes[0]].Name)
	}
	return results, nil
}
