package planning

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/gang/devices"
	"github.com/quartermaster-dra/quartermaster/internal/gang/filters"
	"github.com/quartermaster-dra/quartermaster/internal/gang/search"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// mostOnNode is the number up to which pods are counted on a node.
const mostOnNode = 256

// What takes about as long as asking whether pods fit on a node: looking at nodesAnAsk nodes that cannot be used, preparing the task of
// podsAnAsk pods, and putting resultsAnAsk devices of other domains together.
const (
	nodesAnAsk   = 50
	podsAnAsk    = 8
	resultsAnAsk = 300
)

// roomOnNode is the number of pods of a class for which a node has devices, and the number that it takes.
type roomOnNode struct{ devices, room int }

// measure computes an area's room for pods like the gang's, beyond the gang's own number. It counts classes with equal
// claims as one, since there may be as many classes as pods.
func (a *attempt) measure(where *area) {
	if a.asks -= len(a.classes) / nodesAnAsk; a.asks <= 0 {
		where.unknown, where.room, where.most = true, len(a.gang.Pods), len(a.gang.Pods)
		return
	}
	where.room, where.most = 0, 0
	pods, shares, ordered := 0, 0.0, false
	for _, group := range a.groups() {
		members := 0
		for _, i := range group {
			members += len(a.classes[i].members)
			ordered = ordered || filters.IsOrdered(a.classes[i].first())
		}
		devices, room := a.roomFor(group[0], where)
		if len(group) == 1 {
			where.most += min(members, room)
		} else {
			where.most += min(members, devices) // Other plugins may treat each class differently.
		}
		// If all pods were of this group: the share of the room that its members take.
		shares += float64(members) / (float64(room) + 1e-9)
		pods += members
		where.room = room
	}
	if pods > 0 && len(a.classes) > 1 {
		where.room = int(float64(pods)/shares + 0.5)
	}
	where.unknown = a.asks <= 0
	if ordered || where.unknown { // Pods that fit nowhere alone may fit beside others of the gang.
		where.most = len(a.gang.Pods)
	}
}

// groups returns the classes grouped by equal claims, without classes that are rejected everywhere.
func (a *attempt) groups() (groups [][]int) {
	byClaims := make(map[string]int)
	for i, c := range a.classes {
		if a.rejected(i) != "" {
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

// roomFor returns the number of pods of a class for which the area's nodes have devices, and the number that they take,
// without other pods of the gang. Similar nodes often follow each other, so the last answer is the next guess. Once nothing may be asked any
// more, there may be room for all.
func (a *attempt) roomFor(class int, where *area) (devices, room int) {
	c := a.classes[class]
	sites := where.seen(c.view)
	last := a.last[class]
	defer func() { a.last[class] = last }()
	a.asks -= len(where.nodes) / nodesAnAsk
	for _, node := range where.nodes {
		if a.ctx.Err() != nil {
			return devices, room
		}
		if a.asks <= 0 {
			return len(a.gang.Pods), len(a.gang.Pods)
		}
		if !c.members[0].UsableOn(a.nodes[node]) || c.view.Has != nil && !c.view.Has.Has(a.nodes[node].Name) {
			continue
		}
		last.devices = a.roomOfDevices(class, a.nodes[node], sites, last.devices)
		devices += last.devices
		if last.devices > 0 {
			a.asks--
			last.room = a.rest.Room(class, node, min(last.devices, max(last.room, 1)), last.devices)
			room += last.room
		}
	}
	return devices, room
}

// roomOfDevices returns the number of pods of a class for which a node has devices.
func (a *attempt) roomOfDevices(class int, node *v1.Node, sites devices.Sites, guess int) int {
	open, kind := a.classes[class].members[0].OpenOn(node)
	if len(open) == 0 {
		return mostOnNode
	}
	seen := sites.Site(node)
	return search.Most(guess, mostOnNode, func(pods int) bool {
		a.asks--
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

// A taskKey stands for a number of pods of a class, on nodes of a kind; see devices.Made.
type taskKey struct {
	class, pods int
	kind        string
}

// task returns the allocator task for key.pods pods, each with claims like the open ones.
func (a *attempt) task(key taskKey, open []*resourceapi.ResourceClaim) *allocator.Task {
	if a.tasks[key] == nil {
		a.asks -= key.pods / podsAnAsk
		a.tasks[key] = a.Solver.Prepare(a.claimsOf(open, key.pods))
	}
	return a.tasks[key]
}

// claimsOf returns the claims of a number of pods like the one with these open claims. A claim that several pods of the
// gang share is there once; other claims are copied, since there may be more such pods than the gang has.
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
