package planning

import (
	"cmp"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/internal/gang/others"
	"github.com/quartermaster-dra/quartermaster/internal/gang/trial"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// Gang is what is to be planned.
type Gang struct {
	// Name is "namespace/name" of the group.
	Name string
	// Pods are those that wait, of which Need have to be placed.
	Pods []*v1.Pod
	Need int
	// Wish is what their nodes are to have in common, and On are the nodes where other pods of the gang are.
	Wish domain.Wish
	On   []string
	// AnyOrder is set if it is not known in which order the pods will take their seats. Those for which that matters are
	// planned only if all are alike, so that any pod can take the seat of any other.
	AnyOrder bool
}

// Member is a pod with its claims.
type Member struct {
	trial.Pod
	// Claims is the same for pods whose claims are alike.
	Claims string
}

// View is what is known of devices, as one of the pods sees them.
type View struct {
	// Site is what the allocator is to know about a node, without an objective, and Valued with one.
	Site, Valued func(*v1.Node) allocator.Site
	// Tied is set if the pod may get devices that several nodes reach.
	Tied bool
	// Has are the nodes that have devices for the pod, or might have; nil if nothing is known.
	Has sets.Set[string]
	// Value is what the devices cost on a node, and whether that is known. nil if nothing is.
	Value func(node string) (allocator.Value, bool)
}

// Planner plans gangs, in one cycle of kube-scheduler.
type Planner struct {
	Solver    *allocator.Solver
	Framework others.Framework
	// Mark marks the state of attempts that are not the plugin's own, see others.New.
	Mark  func(fwk.CycleState)
	Nodes []fwk.NodeInfo
	// Describe returns what a pod is planned with. Its error is why the pod cannot be scheduled anywhere for the moment.
	Describe func(*v1.Pod) (Member, error)
	// View is asked for the first pod of each class.
	View func(context.Context, *v1.Pod) (*View, error)
	// Steps is the budget of a search that turns back, see gang.Problem.
	Steps int
}

// Outcome is what came of planning a gang.
type Outcome struct {
	// Plan is nil if the gang does not fit, or if that is not known.
	Plan *trial.Plan
	// GaveUp is set if it is not known, and Pending is what has to be found out first, if it is that.
	GaveUp  bool
	Pending error
	// Pods is how many there are to be placed, Need how many have to be, and Fit how many could be.
	Pods, Need, Fit int
	// Left are pods of which nodes had no room for more, and how many of them are needed, by class.
	Left []Left
	// Wish is what nodes are to have in common.
	Wish domain.Wish
}

// Left is a class of pods of which not all fit.
type Left struct {
	Pod Member
	// Pods is how many more of them are missing, at most.
	Pods int
	// Rejected is why there is no node at all for them, "" if that is not so.
	Rejected string
	// NoDevices is on how many nodes devices were missing, and Refusals has what other plugins said, and of how many
	// nodes. No node counts twice.
	NoDevices int
	Refusals  map[string]int
}

// Plan plans a gang. The error is why it cannot be scheduled at all for the moment, or what went wrong.
//
// If all pods can have the first alternatives of their requests (KEP-4816), they get them.
func (p *Planner) Plan(ctx context.Context, g Gang) (*Outcome, error) {
	classes, err := p.classes(ctx, g.Pods)
	if err != nil {
		return nil, err
	}
	if g.AnyOrder && !areAlike(classes) && slices.ContainsFunc(g.Pods, others.IsOrdered) {
		return &Outcome{GaveUp: true, Pods: len(g.Pods), Need: g.Need, Wish: g.Wish}, nil
	}
	if first, differs := firstAlternatives(classes); differs {
		if out, err := p.plan(ctx, g, first); err == nil && out.Plan != nil && len(out.Plan.Seats) == len(g.Pods) {
			return out, nil
		}
	}
	return p.plan(ctx, g, classes)
}

// plan is Plan for pods that are sorted into classes.
func (p *Planner) plan(ctx context.Context, g Gang, classes []*class) (out *Outcome, err error) {
	a := &attempt{
		Planner: p, ctx: ctx, gang: g, classes: classes, tasks: make(map[taskKey]*allocator.Task),
		out: &Outcome{Pods: len(g.Pods), Need: g.Need, Wish: g.Wish},
	}
	for i := range p.Nodes {
		a.nodes = append(a.nodes, p.Nodes[i].Node())
	}
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

// Older orders pods by when they were created, and by name.
func Older(a, b *v1.Pod) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
