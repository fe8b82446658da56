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

// measure finds out how much room there is in an area, beyond what the gang takes. Classes with claims that are alike are
// counted as one, since there may be as many classes as pods.
func (a *attempt) measure(where *area) {
	where.room, where.most = 0, 0
	pods, shares, ordered := 0, 0.0, false
	for _, group := range a.groups() {
		members := 0
		for _, i := range group {
			members += len(a.classes[i].members)
			ordered = ordered || others.IsOrdered(a.classes[i].first())
		}
		devices, room := a.roomFor(group[0], where)
		if len(group) == 1 {
			where.most += min(members, room)
		} else {
			where.most += min(members, devices) // What other plugins say of one class is not so for the next.
		}
		// As if all wanted the same: the share of the room that these take.
		shares += float64(members) / (float64(room) + 1e-9)
		pods += members
		where.room = room
	}
	if pods > 0 && len(a.classes) > 1 {
		where.room = int(float64(pods)/shares + 0.5)
	}
	if ordered { // Alone they may find no room, and with others of the gang they do.
		where.most = len(a.gang.Pods)
	}
}

// groups returns classes with claims that are alike, without those that are rejected everywhere.
func (a *attempt) groups() (groups [][]int) {
	byClaims := make(map[string]int)
	for i, c := range a.classes {
		if a.rest.Rejected(i) != "" {
			continue
		}
		key := c.members[0].Claims
		at, found := byClaims[key]
		if !found {
			at = len(groups)
			byClaims[key] = at
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], i)
	}
	return groups
}

// roomFor returns for how many pods of a class nodes have devices, and how many they take, if they have nothing else of the
// gang. Nodes that are alike follow each other often, so the last answer is the next guess.
func (a *attempt) roomFor(class int, where *area) (devices, room int) {
	c := a.classes[class]
	site := where.seen(c.view.Site)
	onLast, roomOnLast := 0, 0
	for _, node := range where.nodes {
		if a.ctx.Err() != nil {
			return devices, room
		}
		if usable := c.members[0].Usable; usable != nil && !usable(a.nodes[node]) || c.view.Has != nil && !c.view.Has.Has(a.nodes[node].Name) {
			continue
		}
		onLast = a.roomOfDevices(class, a.nodes[node], site, onLast)
		devices += onLast
		if onLast > 0 {
			roomOnLast = a.rest.Room(class, node, min(onLast, max(roomOnLast, 1)), onLast)
			room += roomOnLast
		}
	}
	return devices, room
}

// roomOfDevices returns for how many pods of a class a node has devices.
func (a *attempt) roomOfDevices(class int, node *v1.Node, site func(*v1.Node) allocator.Site, guess int) int {
	open, kind := a.classes[class].members[0].OpenOn(node)
	if len(open) == 0 {
		return mostOnNode
	}
	seen := site(node)
	return gang.Most(guess, mostOnNode, func(pods int) bool {
		outcome, err := a.task(taskKey{class, pods, kind}, open).Check(a.ctx, seen)
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

// taskKey is so many pods of a class, on nodes of a kind; see trial.Made.
type taskKey struct {
	class, pods int
	kind        string
}

// task is what so many pods need on a node, each of them the like of some open claims.
func (a *attempt) task(key taskKey, open []*resourceapi.ResourceClaim) *allocator.Task {
	if a.tasks[key] == nil {
		a.tasks[key] = a.Solver.Prepare(a.claimsOf(open, key.pods))
	}
	return a.tasks[key]
}

// claimsOf returns the claims of so many pods with claims like these. Those that several pods of the gang use are there once,
// and of the others there are copies, since there may be more such pods than the gang has.
func (a *attempt) claimsOf(open []*resourceapi.ResourceClaim, pods int) (claims []*resourceapi.ResourceClaim) {
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
	for _, claim := range open {
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
