package planning

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/gang/filters"
)

// An Assignment is the planned place of a pod of a gang. It is immutable.
type Assignment struct {
	// Gang is "namespace/name" of the group.
	Gang string
	Pod  *v1.Pod
	Node string
	// Claims are the pod's claims that had no allocation, and Allocations their planned allocations, by UID.
	Claims      []*resourceapi.ResourceClaim
	Allocations map[types.UID]*resourceapi.AllocationResult
	// Made is the last of the claims if it does not exist yet: the claim for the pod's extended resources (KEP-5004).
	Made *resourceapi.ResourceClaim
	// After holds the pods that must be reserved before this one, because its place depends on them.
	After []types.UID
}

// PlanOf returns the planned allocations of claims, in their order; nil if any claim has none.
func (s *Assignment) PlanOf(claims []*resourceapi.ResourceClaim) (plan []resourceapi.AllocationResult) {
	for _, claim := range claims {
		planned := s.Allocations[claim.UID]
		if planned == nil {
			return nil
		}
		plan = append(plan, *planned)
	}
	return plan
}

// Exchanged swaps the places of two pods that are alike (planning.Gang.AnyOrder), and returns their new assignments.
func Exchanged(a, b *Assignment) (*Assignment, *Assignment) { return a.with(b), b.with(a) }

// with returns an assignment for the same pod with the other assignment's place. It has no After: assignments are exchanged when one of
// the pods is about to take its assignment.
func (s *Assignment) with(other *Assignment) *Assignment {
	assignment := *s
	assignment.Node, assignment.After, assignment.Allocations = other.Node, nil, make(map[types.UID]*resourceapi.AllocationResult, len(s.Claims))
	for i, claim := range s.Claims {
		assignment.Allocations[claim.UID] = other.Allocations[other.Claims[i].UID]
	}
	return &assignment
}

// Assignments returns the assignments of a plan, nil if there is none.
func (o *Outcome) Assignments(gang string) (assignments []*Assignment) {
	if o.Plan == nil {
		return nil
	}
	var before []types.UID
	for i := range o.Plan.Assignments {
		from := &o.Plan.Assignments[i]
		assignment := &Assignment{Gang: gang, Pod: from.Pod, Node: from.Node, Claims: from.Claims, Made: from.Made, Allocations: make(map[types.UID]*resourceapi.AllocationResult)}
		for _, claim := range from.Claims {
			assignment.Allocations[claim.UID] = o.Plan.Allocations[claim.UID]
		}
		if filters.IsOrdered(from.Pod) {
			assignment.After = before[:len(before):len(before)]
		}
		before = append(before, from.Pod.UID)
		assignments = append(assignments, assignment)
	}
	return assignments
}
