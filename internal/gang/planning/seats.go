package planning

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/gang/coordinator"
	"github.com/quartermaster-dra/quartermaster/internal/gang/filters"
)

// Seats returns the seats of a plan, nil if there is none.
func (o *Outcome) Seats(gang string) (seats []*coordinator.Seat) {
	if o.Plan == nil {
		return nil
	}
	var before []types.UID
	for i := range o.Plan.Seats {
		from := &o.Plan.Seats[i]
		seat := &coordinator.Seat{Gang: gang, Pod: from.Pod, Node: from.Node, Claims: from.Claims, Made: from.Made, Allocations: make(map[types.UID]*resourceapi.AllocationResult)}
		for _, claim := range from.Claims {
			seat.Allocations[claim.UID] = o.Plan.Allocations[claim.UID]
		}
		if filters.IsOrdered(from.Pod) {
			seat.After = before[:len(before):len(before)]
		}
		before = append(before, from.Pod.UID)
		seats = append(seats, seat)
	}
	return seats
}
