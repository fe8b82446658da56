package hold

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/noderesources"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// placed is a pod on the node where it is to be.
type placed struct {
	pod  *Pod
	node string
	uses []ledger.Use
}

// cost describes the wait for devices; see compare.
type cost struct {
	// serving is the number of devices in use by pods that serve, unknown the number of claims of others whose end is not known.
	serving, unknown int
	// far and near are the latest ends of these kinds, youngest is the latest begin of a pod of unknown end, and oldest the first begin
	// of a pod that serves.
	far, near, youngest, oldest time.Time
}

// compare orders places: first those where the fewest devices of pods that serve have to become free, then by the latest distant
// end, then those with the fewest pods whose end is not known. Devices that become free in a place stay free for its
// holder, so that the place gets ahead of others. Of equal ones it is first the place whose pods of unknown end
// have run for the longest, and then the one whose pods that serve have begun last: those that have served for long go on.
func (c cost) compare(other cost) int {
	return cmp.Or(
		cmp.Compare(c.serving, other.serving), c.far.Compare(other.far), cmp.Compare(c.unknown, other.unknown),
		c.near.Compare(other.near), c.youngest.Compare(other.youngest), other.oldest.Compare(c.oldest),
	)
}

// add adds a claim whose end has to be waited for.
func (c *cost) add(end End, claim ledger.Use) {
	later := func(to *time.Time) {
		if end.At.After(*to) {
			*to = end.At
		}
	}
	switch end.Kind {
	case Known:
		later(&c.near)
	case Unknown:
		c.unknown++
		later(&c.youngest)
	case Distant:
		later(&c.far)
	case Serving, Never:
		for range ledger.Used(claim.Allocation) {
			c.serving++
		}
		if c.oldest.IsZero() || end.At.Before(c.oldest) {
			c.oldest = end.At
		}
	}
}

// solution are the places of all pods of a holder.
type solution struct {
	placed []placed
	cost   cost
	// gone is the number of claims that have to go before, and late that of those which are not known to be gone when a booking starts.
	gone, late int
}

// hold returns the hold for a solution.
func (s *solution) hold(one *Waiting, now time.Time) *Hold {
	h := &Hold{Waiting: one, Ready: s.gone == 0, Late: s.late, Uses: make(map[types.UID][]ledger.Use), Nodes: make(map[types.UID]string)}
	for _, place := range s.placed {
		h.Uses[place.pod.UID], h.Nodes[place.pod.UID] = place.uses, place.node
	}
	h.pools = make(map[inventory.PoolID]bool)
	for id := range h.devicesHeld() {
		h.pools[id] = true
	}
	if s.cost.unknown == 0 && s.cost.serving == 0 {
		h.Begin = now
		for _, at := range []time.Time{s.cost.near, s.cost.far} {
			if at.After(h.Begin) {
				h.Begin = at
			}
		}
	}
	return h
}

// A holder may have as many looks at a pod on a node as nodes for each of its first mostPods pods and looksOfNode more, and all of a plan
// together looksOfPlan for each node: a group can have as many kinds of pods as pods, and no pod is scheduled before the first plan. Each holder
// has one for each node and leastLooks, whatever others take.
const mostPods, looksOfNode, looksOfPlan, leastLooks = 64, 8, 128, 1000

// looksFor returns the looks that a holder may have.
func (w *World) looksFor(one *Waiting) int {
	nodes := len(w.Nodes)
	most := nodes*(min(len(one.Pods), mostPods)+looksOfNode) + leastLooks
	return max(nodes+leastLooks, min(most, looksOfPlan*nodes-w.looks))
}

// best returns the best places for the pods of a holder, nil if there are none in any domain. taken is held for others. cut reports that
// none was found in the looks that the holder may have.
func (w *World) best(one *Waiting, taken []placed) (best *solution, cut bool) {
	left := w.looksFor(one)
	before := left
	best = w.inDomains(one, taken, &left)
	w.looks += before - max(left, 0)
	return best, best == nil && left < 0
}

// inDomains returns the places in the best domain.
func (w *World) inDomains(one *Waiting, taken []placed, looks *int) (best *solution) {
	if one.Domain == nil {
		return w.within(one, w.Nodes, taken, looks)
	}
	domains := make(map[string][]Node)
	for _, node := range w.Nodes {
		if domain, has := one.Domain(node.Node); has {
			domains[domain] = append(domains[domain], node)
		}
	}
	names := make([]string, 0, len(domains))
	for name := range domains {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if found := w.within(one, domains[name], taken, looks); found != nil && (best == nil || found.cost.compare(best.cost) < 0) {
			best = found
		}
	}
	return best
}

// within places the pods of a holder on some nodes, one after the other, each where it costs the least.
func (w *World) within(one *Waiting, nodes []Node, taken []placed, looks *int) *solution {
	t := &trial{
		world: w, waiting: one, base: w.Usage(one), taken: slices.Clone(taken), gone: make(map[types.UID]*Holding),
		own: make(map[types.UID]bool), known: make(map[offerKey]*offer), wanted: make(map[wantedKey][]*Holding), looks: looks,
	}
	for _, pod := range one.Pods {
		for _, claim := range pod.Allocated {
			t.own[claim] = true
		}
	}
	for _, pod := range one.Pods {
		if !t.place(pod, nodes) {
			return nil
		}
	}
	s := &solution{placed: t.taken[len(taken):], gone: len(t.gone)}
	for _, holding := range t.gone {
		s.cost.add(t.endOf(holding), holding.Use)
		if one.Booking != nil && !one.Booking.outlasts(holding) {
			s.late++
		}
	}
	return s
}

// place places a pod on the node where it costs the least. It returns false if there is none.
func (t *trial) place(pod *Pod, nodes []Node) bool {
	for {
		var best *offer
		for i := range nodes {
			if found := t.offer(pod, &nodes[i]); found != nil && (best == nil || found.cost.compare(best.cost) < 0) {
				best = found // Of equal ones the first by name.
			}
		}
		if best == nil {
			return false
		}
		if t.accept(pod, best) {
			return true
		}
		t.known[offerKey{pod.Kind, best.node.Name}] = nil
	}
}

// A trial places the pods of one holder.
type trial struct {
	world   *World
	waiting *Waiting
	base    ledger.View
	// taken are the places of earlier holders and pods, and gone the claims that have to go for these pods.
	taken []placed
	gone  map[types.UID]*Holding
	// own are the allocated claims of the holder's pods. They keep their devices when other pods that share them have ended.
	own   map[types.UID]bool
	known map[offerKey]*offer
	// wanted are the claims in pools that have devices which pods of a kind may get.
	wanted map[wantedKey][]*Holding
	// looks counts the looks at a pod on a node that are left to the holder.
	looks *int
}

type offerKey struct{ kind, node string }

// An offer is a node that can take a pod once some claims are gone.
type offer struct {
	node *Node
	cost cost
	gone []*Holding
}

// offer returns what a node costs for a pod, nil if the pod never fits there.
func (t *trial) offer(pod *Pod, node *Node) *offer {
	key := offerKey{pod.Kind, node.Name}
	if known, found := t.known[key]; found {
		return known
	}
	if *t.looks = max(*t.looks-1, -1); *t.looks < 0 {
		return nil
	}
	var found *offer
	if pod.Admits(node.Node) {
		found = t.examine(pod, node)
	}
	t.known[key] = found
	return found
}

// examine implements offer for a node that suits the pod: the first claims to end go until the pod fits.
func (t *trial) examine(pod *Pod, node *Node) *offer {
	order := t.inTheWay(pod, node)
	slices.SortFunc(order, func(a, b *Holding) int {
		return cmp.Or(t.endOf(a).Compare(t.endOf(b)), cmp.Compare(a.Use.Claim.UID, b.Use.Claim.UID))
	})
	order = slices.CompactFunc(order, func(a, b *Holding) bool { return a.Use.Claim.UID == b.Use.Claim.UID })
	if !t.fits(pod, node, order) {
		return nil
	}
	order = order[:sort.Search(len(order), func(n int) bool { return t.fits(pod, node, order[:n]) })]
	if needed := t.overlapping(pod, node, order); len(needed) < len(order) && t.fits(pod, node, needed) {
		order = needed // The others end before, but are not in the way.
	}
	found := &offer{node: node, gone: order}
	for _, holding := range order {
		found.cost.add(t.endOf(holding), holding.Use)
	}
	return found
}

// endOf returns the end of a claim for the holder.
func (t *trial) endOf(holding *Holding) End {
	// Others of higher priority do not leave the devices to a booking, nor do its own pods.
	if by := t.world.stays[holding.Use.Claim.UID]; by != nil && t.waiting.Priority <= by.Priority && !slices.Contains(t.waiting.For, by.Booking.UID) {
		return End{Kind: Never}
	}
	if t.waiting.Evicts && holding.End.Kind != Never && len(holding.Pods) > 0 && holding.Highest < t.waiting.Priority {
		return End{Known, t.world.Now}
	}
	if b := t.waiting.Booking; b != nil && b.outlasts(holding) {
		return End{Known, t.world.Now} // The devices are as good as free ones.
	}
	return holding.End
}

// fits reports whether a pod fits on a node once more claims are gone.
func (t *trial) fits(pod *Pod, node *Node, more []*Holding) bool {
	// The other needs of the pods that a booking is for are not known.
	return (t.waiting.Booking != nil || t.room(node, more).Holds(pod.Takes)) && t.solve(pod, node, more) != nil
}

// solve returns the devices of a pod on a node once more claims are gone.
func (t *trial) solve(pod *Pod, node *Node, more []*Holding) []ledger.Use {
	var gone, held []ledger.Use
	pools := make([]inventory.PoolID, 0, len(node.Pools))
	for _, pool := range node.Pools {
		pools = append(pools, pool.ID)
	}
	near := func(use ledger.Use) bool { return use.IsIn(pools) }
	for _, holding := range t.gone {
		if near(holding.Use) && !t.own[holding.Use.Claim.UID] {
			gone = append(gone, holding.Use)
		}
	}
	for _, holding := range more {
		if !t.own[holding.Use.Claim.UID] {
			gone = append(gone, holding.Use)
		}
	}
	for _, place := range t.taken {
		for _, use := range place.uses {
			if near(use) {
				held = append(held, use)
			}
		}
	}
	return pod.Solve(node.Node, ledger.WhatIf(t.base, gone, held))
}

// room returns what is free of a node besides devices once more claims are gone.
func (t *trial) room(node *Node, more []*Holding) noderesources.Resources {
	room, seen := node.Room, make(map[types.UID]bool)
	leave := func(holding *Holding) {
		for _, runner := range holding.Pods {
			if runner.Node == node.Name && !seen[runner.Pod] {
				seen[runner.Pod] = true
				room = room.Plus(runner.Takes)
			}
		}
	}
	for _, holding := range t.gone {
		leave(holding)
	}
	for _, holding := range more {
		leave(holding)
	}
	for _, place := range t.taken {
		if place.node == node.Name {
			room = room.Minus(place.pod.Takes)
		}
	}
	return room
}

// overlapping returns those of the claims that have a device which the pod gets.
func (t *trial) overlapping(pod *Pod, node *Node, claims []*Holding) (needed []*Holding) {
	gets := devicesIn(t.solve(pod, node, claims)...)
	for _, holding := range claims {
		if gets.haveAny(holding.Use) {
			needed = append(needed, holding)
		}
	}
	return needed
}

// devices are the devices of some allocations.
type devices map[device]bool

type device struct {
	pool inventory.PoolID
	name string
}

func devicesIn(uses ...ledger.Use) devices {
	in := make(devices)
	for _, use := range uses {
		for result := range ledger.Used(use.Allocation) {
			in[device{ledger.PoolOf(result), result.Device}] = true
		}
	}
	return in
}

// haveAny reports whether an allocation has one of the devices.
func (d devices) haveAny(use ledger.Use) bool {
	for result := range ledger.Used(use.Allocation) {
		if d[device{ledger.PoolOf(result), result.Device}] {
			return true
		}
	}
	return false
}

// accept places a pod. It returns false if the pod does not fit after all: another pod of its kind did.
func (t *trial) accept(pod *Pod, on *offer) bool {
	uses := t.solve(pod, on.node, on.gone)
	if uses == nil {
		return false
	}
	for _, holding := range on.gone {
		t.gone[holding.Use.Claim.UID] = holding
	}
	t.taken = append(t.taken, placed{pod, on.node.Name, uses})
	changed := make(map[inventory.PoolID]bool)
	for _, use := range uses {
		addPools(changed, use)
	}
	for _, holding := range on.gone {
		addPools(changed, holding.Use)
	}
	spent := *t.looks <= 0 // What is known of other nodes may be outdated: accept finds that out.
	for key, known := range t.known {
		if known != nil && (key.node == on.node.Name || !spent && slices.ContainsFunc(known.node.Pools, func(pool *inventory.NodePool) bool { return changed[pool.ID] })) {
			delete(t.known, key)
		}
	}
	return true
}

// addPools adds the pools of a claim's devices.
func addPools(pools map[inventory.PoolID]bool, use ledger.Use) {
	for result := range ledger.Used(use.Allocation) {
		pools[ledger.PoolOf(result)] = true
	}
}
