package planning

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/gang"
	"github.com/quartermaster-dra/quartermaster/internal/gang/others"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// mostOnNode is up to which number pods that a node has room for are counted.
const mostOnNode = 256

// measure finds out how much room there is in an area, beyond what the gang takes. Nodes that are alike follow each other
// often, so the last answer is the next guess.
func (a *attempt) measure(where *area) {
	ordered, shares := false, 0.0
	for i, c := range a.classes {
		ordered = ordered || others.IsOrdered(c.first())
		if a.rest.Rejected(i) != "" {
			continue
		}
		room := a.roomFor(i, where)
		where.most += min(room, len(c.members))
		// As if all classes wanted the same: the share of the room that the class takes.
		shares += float64(len(c.members)) / float64(max(room, 1))
		if len(a.classes) == 1 {
			where.room = room
		}
	}
	if len(a.classes) > 1 && shares > 0 && where.most > 0 {
		where.room = max(1, int(float64(len(a.gang.Pods))/shares))
	}
	if ordered { // Alone they may find no room, and with others of the gang they do.
		where.most = len(a.gang.Pods)
	}
}

// roomFor returns how many pods of a class nodes take that have nothing else of the gang.
func (a *attempt) roomFor(class int, where *area) (room int) {
	c := a.classes[class]
	site := where.seen(c.view.Site)
	last := [2]int{}
	for _, node := range where.nodes {
		if a.ctx.Err() != nil {
			return room
		}
		if usable := c.members[0].Usable; usable != nil && !usable(a.nodes[node]) || c.view.Has != nil && !c.view.Has.Has(a.nodes[node].Name) {
			continue
		}
		last[0] = a.roomOfDevices(class, a.nodes[node], site, last[0])
		if last[0] > 0 {
			last[1] = a.rest.Room(class, node, min(last[0], max(last[1], 1)), last[0])
			room += last[1]
		}
	}
	return room
}

// roomOfDevices returns for how many pods of a class a node has devices.
func (a *attempt) roomOfDevices(class int, node *v1.Node, site func(*v1.Node) allocator.Site, guess int) int {
	if len(a.classes[class].members[0].Open) == 0 {
		return mostOnNode
	}
	seen := site(node)
	return gang.Most(guess, mostOnNode, func(pods int) bool {
		outcome, err := a.task(class, pods).Check(a.ctx, seen)
		if err != nil {
			return errors.Is(err, selector.ErrPending)
		}
		fits := outcome.Fits() || outcome.GaveUp
		if !outcome.Fits() {
			outcome.Release()
		}
		return fits
	})
}

// task is what so many pods of a class need on a node.
func (a *attempt) task(class, pods int) *allocator.Task {
	key := [2]int{class, pods}
	if a.tasks[key] == nil {
		a.tasks[key] = a.Solver.Prepare(a.claimsOf(class, pods))
	}
	return a.tasks[key]
}

// claimsOf returns the claims of so many pods of a class. Those that several pods of the gang use are there once, and of
// the others there are copies, since there may be more such pods than the gang has.
func (a *attempt) claimsOf(class, pods int) (claims []*resourceapi.ResourceClaim) {
	if a.users == nil {
		a.users = make(map[types.UID]int)
		for _, c := range a.classes {
			for i := range c.members {
				for _, claim := range c.members[i].Open {
					a.users[claim.UID]++
				}
			}
		}
	}
	for _, claim := range a.classes[class].members[0].Open {
		if a.users[claim.UID] > 1 {
			claims = append(claims, claim)
			continue
		}
		for i := range pods {
			pretended := *claim
			pretended.Name, pretended.UID = fmt.Sprint(claim.Name, "-", i), types.UID(fmt.Sprint(claim.UID, "-", i))
			claims = append(claims, &pretended)
		}
	}
	return claims
}
