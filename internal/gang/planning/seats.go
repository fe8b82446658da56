package planning

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/gang/coordinator"
	"github.com/quartermaster-dra/quartermaster/internal/gang/filters"
)

// Assignments returns the assignments of a plan, nil if there is none.
func (o *Outcome) Assignments(gang string) (assignments []*coordinator.Assignment) {
	if o.Plan == nil {
		return nil
	}
	var before []types.UID
	for i := range o.Plan.Assignments {
		from := &o.Plan.Assignments[i]
		assignment := &coordinator.Assignment{Gang: gang, Pod: from.Pod, Node: from.Node, Claims: from.Claims, Made: from.Made, Allocations: make(map[types.UID]*resourceapi.AllocationResult)}
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
