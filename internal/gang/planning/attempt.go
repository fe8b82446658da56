package planning

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/gang/devices"
	"github.com/quartermaster-dra/quartermaster/internal/gang/filters"
	"github.com/quartermaster-dra/quartermaster/internal/gang/search"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// An attempt is one attempt to plan a gang.
type attempt struct {
	*Planner
	ctx     context.Context
	gang    Gang
	classes []*class
	nodes   []*v1.Node
	// rest judges everything except devices. Between two searches it holds no pods.
	rest *filters.Others
	// candidates are the nodes to try, in this order.
	candidates []int
	// tasks caches allocator tasks, and users holds the number of pods by open claim.
	tasks map[taskKey]*allocator.Task
	users map[types.UID]int
	// asks is the rest of Planner.Asks: classes times domains times nodes have no limit.
	asks int
	// last is the last answer of roomFor on a node, by class.
	last map[int]roomOnNode
	out  *Outcome
}

// askOthers runs the PreFilter plugins for a pod of each class.
func (a *attempt) askOthers() (err error) {
	var pods []*v1.Pod
	for _, c := range a.classes {
		pods = append(pods, c.first())
	}
	a.rest, err = filters.New(a.ctx, filters.Without(a.Framework, a.gang.Pods), a.Planner.Nodes, pods)
	return err
}

// rejected returns why no node can take pods of a class, "" if some may.
func (a *attempt) rejected(class int) string {
	if unfit := a.classes[class].members[0].Unfit; unfit != nil {
		return unfit.Error()
	}
	return a.rest.Rejected(class)
}

// try looks for a plan in an area.
func (a *attempt) try(where area, need int) (*search.Result, error) {
	a.rest.Reset()
	j := newJudge(a.ctx, a.rest, a.world(where), a.classes, &a.asks)
	result := search.Search(a.ctx, a.problem(j.Trial, where.nodes, need), j)
	if result.Fits() {
		plan, err := j.Plan()
		a.out.GaveUp, a.out.Pending, a.out.Fit, a.out.Left, a.out.Plan = false, nil, len(result.Assignments), nil, plan
		return &result, err
	}
	a.out.GaveUp = a.out.GaveUp || result.GaveUp
	if j.Pending() != nil {
		a.out.Pending = j.Pending()
	}
	a.note(result.Most)
	return &result, nil
}

// world returns the input of a trial in an area.
func (a *attempt) world(where area) devices.World {
	view := a.classes[0].view
	world := devices.World{Solver: a.Solver, Nodes: a.nodes, Sites: where.seen(view)}
	for _, c := range a.classes {
		world.Shared = world.Shared || c.view.Shared
		pods := make([]devices.Pod, len(c.members))
		for i := range c.members {
			pods[i] = c.members[i].Pod
		}
		world.Classes = append(world.Classes, pods)
	}
	return world
}

// problem returns the input of a search on some nodes.
func (a *attempt) problem(t *devices.Trial, nodes []int, need int) search.Problem {
	problem := search.Problem{Nodes: nodes, Need: need, Apart: t.Apart(), Steps: a.Steps}
	if key := a.spreadBy(); key != "" {
		problem.Rounds = roundsOf(nodes, func(i int) string { return a.nodes[i].Labels[key] })
	}
	for i, c := range a.classes {
		class := search.Class{Pods: len(c.members), Ordered: filters.IsOrdered(c.first())}
		if a.rejected(i) != "" {
			class.Pods = 0 // No node needs to be asked.
		}
		problem.Classes = append(problem.Classes, class)
		problem.Apart = problem.Apart && !filters.IsTied(c.first())
	}
	return problem
}

// note stores what was missing, if more pods than ever were placed at the same time.
func (a *attempt) note(most []int) {
	fit := 0
	for _, n := range most {
		fit += n
	}
	if a.out.Left != nil && fit <= a.out.Fit {
		return
	}
	a.out.Fit, a.out.Left = fit, nil
	missing := a.gang.Need - a.out.Fit
	for i, c := range a.classes {
		left := min(len(c.members)-most[i], missing)
		if left <= 0 {
			continue
		}
		missing -= left
		refusals := a.rest.Refusals(i)
		lacking := refusals[noDevices] + a.knownToLack(c)
		delete(refusals, noDevices)
		if names, why := a.rest.Named(i); names != nil {
			refusals[why] = 0
			for _, node := range a.nodes {
				refusals[why] += boolToInt(!names.Has(node.Name))
			}
		}
		a.out.Left = append(a.out.Left, Left{Pod: c.members[0], Pods: left, Rejected: a.rejected(i), NoDevices: lacking, Refusals: refusals})
	}
}

// knownToLack returns the number of nodes without devices for a pod's extended resources: these nodes were not asked.
// Nodes whose device plugin offers some of the resource were asked nevertheless, and have none left either.
func (a *attempt) knownToLack(c *class) (nodes int) {
	if c.members[0].Made == nil || c.view.Has == nil {
		return 0
	}
	for _, node := range a.nodes {
		nodes += boolToInt(!c.view.Has.Has(node.Name))
	}
	return nodes
}
