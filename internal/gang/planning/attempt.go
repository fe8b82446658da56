package planning

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/quartermaster-dra/quartermaster/internal/gang"
	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/internal/gang/others"
	"github.com/quartermaster-dra/quartermaster/internal/gang/trial"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// attempt is one attempt to plan a gang.
type attempt struct {
	*Planner
	ctx     context.Context
	gang    Gang
	classes []*class
	nodes   []*v1.Node
	// candidates are the nodes to be tried, in this order.
	candidates []int
	out        *Outcome
}

// order puts the nodes first where the devices that most pods want cost the least, and leaves out those that are known
// to have none for any of the pods.
func (a *attempt) order() {
	var has sets.Set[string]
	for i, c := range a.classes {
		if c.view.Has == nil {
			has = nil
			break
		}
		if i == 0 {
			has = sets.New[string]()
		}
		has = has.Union(c.view.Has)
	}
	for i, node := range a.nodes {
		if has == nil || has.Has(node.Name) {
			a.candidates = append(a.candidates, i)
		}
	}
	value := a.classes[0].view.Value
	if value == nil {
		return
	}
	slices.SortStableFunc(a.candidates, func(i, j int) int {
		x, knownX := value(a.nodes[i].Name)
		y, knownY := value(a.nodes[j].Name)
		switch {
		case knownX && knownY:
			return x.Compare(y)
		case knownX:
			return -1
		case knownY:
			return 1
		}
		return 0
	})
}

// try looks for a plan on some of the nodes. Blocked returns which devices of a node must not be taken, nil for none.
func (a *attempt) try(nodes []int, need int, blocked func(*v1.Node) *ledger.Use) (*gang.Result, error) {
	rest, t, err := a.trial(blocked)
	if err != nil {
		return nil, err
	}
	result := gang.Search(a.ctx, a.problem(t, nodes, need), t)
	if result.Fits() {
		a.out.GaveUp, a.out.Fit = false, len(result.Seats)
		a.out.Plan, err = t.Plan()
		return &result, err
	}
	a.out.GaveUp = a.out.GaveUp || result.GaveUp
	if t.Pending() != nil {
		a.out.Pending = t.Pending()
	}
	a.note(&result, rest)
	return &result, nil
}

// room returns how many pods some nodes have room for.
func (a *attempt) room(nodes []int, blocked func(*v1.Node) *ledger.Use) (int, error) {
	_, t, err := a.trial(blocked)
	if err != nil {
		return 0, err
	}
	result := gang.Search(a.ctx, a.problem(t, nodes, 0), t)
	return result.MostPods(), nil
}

// trial makes a trial without any pod.
func (a *attempt) trial(blocked func(*v1.Node) *ledger.Use) (*others.Others, *trial.Trial, error) {
	var first []*v1.Pod
	view := a.classes[0].view
	world := trial.World{Solver: a.Solver, Nodes: a.nodes, Site: view.Site, Valued: view.Valued}
	for _, c := range a.classes {
		first = append(first, c.members[0].Pod.Pod)
		world.Tied = world.Tied || c.view.Tied
		var pods []trial.Pod
		for i := range c.members {
			pods = append(pods, c.members[i].Pod)
		}
		world.Classes = append(world.Classes, pods)
	}
	if blocked != nil {
		world.Site, world.Valued = without(view.Site, blocked), without(view.Valued, blocked)
	}
	rest, err := others.New(a.ctx, a.Framework, a.Planner.Nodes, first, a.Mark)
	if err != nil {
		return nil, nil, err
	}
	world.Others = rest
	return rest, trial.New(a.ctx, world), nil
}

// without is a site where some devices cannot be had.
func without(site func(*v1.Node) allocator.Site, blocked func(*v1.Node) *ledger.Use) func(*v1.Node) allocator.Site {
	return func(node *v1.Node) allocator.Site {
		s := site(node)
		if use := blocked(node); use != nil {
			s.Usage = ledger.WhatIf(s.Usage, nil, []ledger.Use{*use})
		}
		return s
	}
}

// note remembers what most of the pods that were placed at the same time were.
func (a *attempt) note(result *gang.Result, rest *others.Others) {
	if a.out.Left != nil && result.MostPods() <= a.out.Fit {
		return
	}
	a.out.Fit, a.out.Left = result.MostPods(), nil
	missing := a.gang.Need - a.out.Fit
	for i, c := range a.classes {
		if left := min(len(c.members)-result.Most[i], missing); left > 0 {
			a.out.Left = append(a.out.Left, Left{Pod: c.members[0], Pods: left, Refusals: rest.Refusals(i)})
			missing -= left
		}
	}
}

// tryDomains looks for a plan within one domain, or, if that is only preferred, within as few as possible.
func (a *attempt) tryDomains() error {
	var nodes []*v1.Node
	for _, i := range a.candidates {
		nodes = append(nodes, a.nodes[i])
	}
	pools := func(node *v1.Node) []*inventory.NodePool { return a.classes[0].view.Site(node).Pools }
	domains := domain.Split(a.gang.Wish.Key, nodes, pools)
	if a.gang.Wish.Required {
		domains = slices.DeleteFunc(domains, func(d domain.Domain) bool { return !a.hasRunning(d, pools) })
	}
	positions := make([][]int, len(domains))
	rooms := make([]domain.Room, len(domains))
	for i, d := range domains {
		for _, at := range d.Nodes {
			positions[i] = append(positions[i], a.candidates[at])
		}
		room, err := a.room(positions[i], a.blockedIn(d.Name, pools))
		if err != nil {
			return err
		}
		rooms[i] = domain.Room{Name: d.Name, Pods: room}
	}
	if a.gang.Wish.Required {
		return a.tryEach(domains, positions, rooms, pools)
	}
	var order []int
	for _, i := range domain.Choose(rooms, len(a.gang.Pods), false) {
		order = appendNew(order, positions[i])
	}
	_, err := a.try(appendNew(order, a.candidates), a.gang.Need, nil)
	return err
}

// appendNew appends what is not there yet.
func appendNew(list, more []int) []int {
	there := sets.New(list...)
	for _, n := range more {
		if !there.Has(n) {
			list = append(list, n)
		}
	}
	return list
}

// tryEach tries one domain after the other: first those with room for all pods, then those with room for enough.
func (a *attempt) tryEach(domains []domain.Domain, positions [][]int, rooms []domain.Room, pools func(*v1.Node) []*inventory.NodePool) error {
	order := appendNew(domain.Choose(rooms, len(a.gang.Pods), true), domain.Choose(rooms, a.gang.Need, true))
	if len(order) == 0 { // To be able to say how many fit.
		for i := range domains {
			order = append(order, i)
		}
	}
	if len(order) == 0 {
		a.note(&gang.Result{Most: make([]int, len(a.classes))}, &others.Others{})
	}
	for _, i := range order {
		result, err := a.try(positions[i], a.gang.Need, a.blockedIn(domains[i].Name, pools))
		if err != nil || result.Fits() {
			return err
		}
	}
	return nil
}

// hasRunning reports whether all pods of the gang that have a node are in the domain.
func (a *attempt) hasRunning(d domain.Domain, pools func(*v1.Node) []*inventory.NodePool) bool {
	for _, name := range a.gang.On {
		at := slices.IndexFunc(a.nodes, func(node *v1.Node) bool { return node.Name == name })
		if at < 0 {
			continue
		}
		in := domain.Split(a.gang.Wish.Key, []*v1.Node{a.nodes[at]}, pools)
		if !slices.ContainsFunc(in, func(other domain.Domain) bool { return other.Name == d.Name }) {
			return false
		}
	}
	return true
}

// blockedIn returns which devices of a node belong to other domains.
func (a *attempt) blockedIn(name string, pools func(*v1.Node) []*inventory.NodePool) func(*v1.Node) *ledger.Use {
	if a.gang.Wish.Key.Attribute == "" {
		return nil
	}
	return func(node *v1.Node) *ledger.Use {
		blocked := domain.Blocked(a.gang.Wish.Key, name, pools(node))
		if len(blocked) == 0 {
			return nil
		}
		use := &ledger.Use{Claim: ledger.ClaimRef{Name: "other domains"}, Allocation: &resourceapi.AllocationResult{}}
		for id, devices := range blocked {
			for _, device := range devices {
				use.Allocation.Devices.Results = append(use.Allocation.Devices.Results,
					resourceapi.DeviceRequestAllocationResult{Driver: id.Driver, Pool: id.Name, Device: device})
			}
		}
		return use
	}
}
