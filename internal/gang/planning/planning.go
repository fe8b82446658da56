package planning

import (
	"cmp"
	"context"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/devices"
	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/internal/gang/filters"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// A Gang is the input of Planner.Plan.
type Gang struct {
	// Name is "namespace/name" of the group.
	Name string
	// Pods are the waiting pods; at least Need of them have to be placed.
	Pods []*v1.Pod
	Need int
	// Wish is the domain that the nodes must or should share, and On holds the nodes of the gang's running pods.
	Wish domain.Wish
	On   []string
	// AnyOrder is set if the order in which the pods will take their assignments is not known. If that order matters to any
	// pod, the gang is planned only if all pods are alike: then any pod can take any assignment.
	AnyOrder bool
}

// A Member is a pod with its claims.
type Member struct {
	devices.Pod
	// Claims is equal for pods whose claims are alike.
	Claims string
	// Unfit is the reason why no node can take the pod with the allocations that its claims have, nil if some may. Unlike after
	// an error, the gang is planned without the pod, and does not fit if it needs the pod.
	Unfit error
}

// A View is one pod's view of the devices.
type View struct {
	devices.Sites
	// Shared is set if the pod may get devices that several nodes reach.
	Shared bool
	// Has holds the nodes that have devices for the pod, or might have; nil if that is not known.
	Has sets.Set[string]
	// Values has the cost of devices; it is nil if no cost is known.
	Values Values
}

// Values has the cost of the devices that a pod would take.
type Values interface {
	// Value returns the cost on a node, and whether it is known.
	Value(node string) (allocator.Value, bool)
}

// Pods describes the pods of a gang.
type Pods interface {
	// Describe returns a pod with its claims. Its error says why the pod cannot be scheduled anywhere for now.
	Describe(*v1.Pod) (Member, error)
	// View returns a pod's view of the devices. It is called for the first pod of each class.
	View(context.Context, *v1.Pod) (*View, error)
}

// A Planner plans gangs, in one scheduling cycle.
type Planner struct {
	Solver    *allocator.Solver
	Framework filters.Framework
	Nodes     []fwk.NodeInfo
	Pods      Pods
	// Steps is the budget of a search with backtracking; see search.Problem.
	Steps int
	// Asks limits how often each part of a plan asks whether pods fit on a node: measuring the domains, trying them, and trying all nodes. It
	// takes some 30 µs, in which nobody is scheduled. 0 means asksOfStep times Steps, at least leastAsks, and one for each node and each of asksOfNode classes.
	Asks int
}

// Outcome is the result of Planner.Plan.
type Outcome struct {
	// Plan is nil if the gang does not fit, or if that is unknown.
	Plan *devices.Plan
	// GaveUp is set if the answer is unknown. Pending is the evaluation to wait for, if that is the reason.
	GaveUp  bool
	Pending error
	// Pods is the number of pods to place, Need the minimum, and Fit the most that fit at once.
	Pods, Need, Fit int
	// Left holds, by class, the pods for which nodes had no room, as far as they are needed.
	Left []Left
	// Wish is copied from the Gang.
	Wish domain.Wish
}

// Left describes a class whose pods do not all fit.
type Left struct {
	Pod Member
	// Pods is the number of its pods that are missing, at most.
	Pods int
	// Rejected is why no node at all can take them, "" if nodes were tried.
	Rejected string
	// NoDevices is the number of nodes where devices were missing. Refusals holds the numbers of nodes by the
	// reasons that other plugins gave. No node counts twice.
	NoDevices int
	Refusals  map[string]int
}

// Plan plans a gang. The error says why the gang cannot be scheduled at all for now, or what went wrong.
//
// If all pods can have the first alternatives of their requests (KEP-4816), they get them.
func (p *Planner) Plan(ctx context.Context, g Gang) (*Outcome, error) {
	classes, err := p.classes(ctx, g.Pods)
	if err != nil {
		return nil, err
	}
	if g.AnyOrder && !areAlike(classes) && slices.ContainsFunc(g.Pods, filters.IsOrdered) {
		return &Outcome{GaveUp: true, Pods: len(g.Pods), Need: g.Need, Wish: g.Wish}, nil
	}
	if first, differs := firstAlternatives(classes); differs {
		if out, err := p.plan(ctx, g, first); err == nil && out.Plan != nil && len(out.Plan.Assignments) == len(g.Pods) {
			return out, nil
		}
	}
	return p.plan(ctx, g, classes)
}

// So many asks take some seconds, with the default for Steps on 5,000 nodes.
const leastAsks, asksOfStep, asksOfNode = 200_000, 20, 64

func (a *attempt) mostAsks() int {
	return cmp.Or(a.Asks, max(leastAsks, asksOfStep*min(a.Steps, math.MaxInt32), min(asksOfNode, len(a.classes))*len(a.nodes)))
}

// plan does the same as Plan, for pods sorted into classes.
func (p *Planner) plan(ctx context.Context, g Gang, classes []*class) (out *Outcome, err error) {
	a := &attempt{
		Planner: p, ctx: ctx, gang: g, classes: classes, tasks: make(map[taskKey]*allocator.Task), last: make(map[int]roomOnNode),
		out: &Outcome{Pods: len(g.Pods), Need: g.Need, Wish: g.Wish},
	}
	for i := range p.Nodes {
		a.nodes = append(a.nodes, p.Nodes[i].Node())
	}
	a.asks = a.mostAsks()
	if err := a.askOthers(); err != nil {
		return nil, err
	}
	a.order()
	if g.Wish.Key.IsZero() {
		_, err = a.try(area{nodes: a.candidates}, g.Need)
	} else {
		err = a.tryDomains()
	}
	return a.out, err
}
