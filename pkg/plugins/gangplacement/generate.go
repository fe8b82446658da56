package gangplacement

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/internal/podstatus"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/plugins/gangplacement/placed"
)

// GeneratePlacements implements fwk.PlacementGeneratePlugin. Constraints of the API come first, as in
// TopologyPlacementGenerator; what the annotations of the group ask for divides the placements that
// these leave. Composite groups have no annotations of ours, their groups may.
func (pl *Plugin) GeneratePlacements(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, parent *fwk.Placement) (*fwk.GeneratePlacementsResult, *fwk.Status) {
	var wish domain.Wish
	if object := group.GetPodGroup(); object != nil {
		var err error
		if wish, err = domain.Of(object.Annotations); err != nil {
			return nil, podstatus.Of(fwk.UnschedulableAndUnresolvable, err)
		}
	}
	result, status := pl.upstream.GeneratePlacements(ctx, state, group, parent)
	if !status.IsSuccess() {
		return nil, status
	}
	a := &attempt{group: group, wish: wish, choices: make(map[*fwk.Placement]*choice)}
	parents := slices.Clone(result.Placements)
	slices.SortFunc(parents, func(a, b *fwk.Placement) int { return cmp.Compare(a.Name, b.Name) })
	if wish.Key.IsZero() {
		for _, p := range parents {
			a.add(p, nil)
		}
	} else if status := pl.divide(ctx, a, parents); !status.IsSuccess() {
		return nil, status
	}
	if len(a.listed) > 1 && takesDevices(group.GetUnscheduledPods()) {
		a.takesDevices, a.kind = true, pl.kindOf(group.GetUnscheduledPods())
		pl.evaluate(ctx, a.kind, parent.Nodes)
	}
	a.tell(state)
	return &fwk.GeneratePlacementsResult{Placements: a.listed}, nil
}

// divide adds placements for the domains of a wish.
func (pl *Plugin) divide(ctx context.Context, a *attempt, parents []*fwk.Placement) *fwk.Status {
	running, err := pl.runningDomains(a.wish.Key, a.group)
	if err != nil {
		return podstatus.Failed(err)
	}
	if a.wish.Required {
		if problem := running.problem(a.wish.Key); problem != "" {
			return podstatus.New(fwk.UnschedulableAndUnresolvable, problem)
		}
	}
	a.running = running
	for _, parent := range parents {
		pl.divideOne(ctx, a, parent)
	}
	if len(a.listed) == 0 && len(parents) > 0 {
		return podstatus.New(fwk.UnschedulableAndUnresolvable, noDomain(a, parents))
	}
	return nil
}

// divideOne adds a placement for each domain that has nodes in the parent. If a domain is only preferred,
// there are others for groups that no single one has room for: several domains together, and at last all
// nodes.
func (pl *Plugin) divideOne(ctx context.Context, a *attempt, parent *fwk.Placement) {
	nodes := make([]*v1.Node, len(parent.Nodes))
	for i, info := range parent.Nodes {
		nodes[i] = info.Node()
	}
	domains := domain.Split(a.wish.Key, nodes, pl.poolsOf)
	if a.wish.Required {
		domains = slices.DeleteFunc(domains, func(d domain.Domain) bool { return !a.running.allows(d.Name) })
	}
	for _, d := range domains {
		a.add(subset(parent, d.Name, d.Nodes), []string{d.Name})
	}
	if a.wish.Required {
		return
	}
	a.remember(parent, domains)
	pl.join(ctx, a, parent, domains)
	a.addLast(parent)
}

// join adds placements of several domains: those with most free devices, in steps, because each placement
// costs an attempt for the whole group. How many domains a group uses of them is up to the score.
func (pl *Plugin) join(ctx context.Context, a *attempt, parent *fwk.Placement, domains []domain.Domain) {
	rooms, total := make([]domain.Room, len(domains)), 0
	for i, d := range domains {
		rooms[i] = domain.Room{Name: d.Name, Pods: pl.free(ctx, a.wish.Key, []string{d.Name}, subset(parent, d.Name, d.Nodes).Nodes, nil)}
		total += rooms[i].Pods
	}
	order := domain.Choose(rooms, total, false) // All that have any, the largest first.
	for n := 2; n < len(order); n += max(1, n/2) {
		var names []string
		together := make(map[int]bool)
		for _, i := range order[:n] {
			names = append(names, domains[i].Name)
			for _, node := range domains[i].Nodes {
				together[node] = true
			}
		}
		var list []int
		for i := range parent.Nodes {
			if together[i] {
				list = append(list, i)
			}
		}
		a.add(subset(parent, fmt.Sprintf("%d domains", n), list), names)
	}
}

// subset is a placement with some nodes of a parent, which it is called after.
func subset(parent *fwk.Placement, name string, nodes []int) *fwk.Placement {
	if parent.Name != "" {
		name = parent.Name + "/" + name
	}
	p := &fwk.Placement{Name: name, Nodes: make([]fwk.NodeInfo, len(nodes))}
	for i, node := range nodes {
		p.Nodes[i] = parent.Nodes[node]
	}
	return p
}

// poolsOf returns the pools that a node sees, nil if nobody knows of devices.
func (pl *Plugin) poolsOf(node *v1.Node) []*inventory.NodePool {
	if state := pl.state(); state != nil {
		return state.Inventory.OnNode(node)
	}
	return nil
}

// noDomain says why a group that needs a domain has none.
func noDomain(a *attempt, parents []*fwk.Placement) string {
	nodes := 0
	for _, parent := range parents {
		nodes += len(parent.Nodes)
	}
	what := fmt.Sprintf("reaches a device with attribute %s", a.wish.Key.Attribute)
	if a.wish.Key.Label != "" {
		what = fmt.Sprintf("has label %s", a.wish.Key.Label)
	}
	if a.running.pods > 0 {
		what += fmt.Sprintf(" and is in %s (where %d of its pods run)", quoted(a.running.names), a.running.pods)
	}
	return fmt.Sprintf("the PodGroup needs a domain by %s (%s) and none of %d nodes %s", a.wish.Key, domain.RequiredAnnotation, nodes, what)
}

// choice is a placement that is tried.
type choice struct {
	// domains are those that it consists of; none if it is all nodes of a parent.
	domains []string
	// last is true for what is there only because no domain is required.
	last bool
}

// attempt is what is known of a group while kube-scheduler tries it. It is in the state of the group.
type attempt struct {
	group   fwk.PodGroupInfo
	wish    domain.Wish
	running running
	listed  []*fwk.Placement
	choices map[*fwk.Placement]*choice
	// takesDevices is true if there are several placements, and the devices that the group leaves decide. kind is of which
	// pools it takes them.
	takesDevices bool
	kind         kind
	// byNode has the domains of nodes, if a domain is preferred.
	byNode map[string][]string
}

// stateKey is where an attempt is in the state of a group.
const stateKey fwk.StateKey = Name

// Clone implements fwk.StateData.
func (a *attempt) Clone() fwk.StateData { return a }

func (a *attempt) add(p *fwk.Placement, domains []string) {
	a.listed = append(a.listed, p)
	a.choices[p] = &choice{domains: domains}
}

func (a *attempt) addLast(p *fwk.Placement) {
	a.add(p, nil)
	a.choices[p].last = true
}

// remember keeps the domains of nodes.
func (a *attempt) remember(parent *fwk.Placement, domains []domain.Domain) {
	if a.byNode == nil {
		a.byNode = make(map[string][]string)
	}
	for _, d := range domains {
		for _, i := range d.Nodes {
			name := parent.Nodes[i].Node().Name
			a.byNode[name] = append(a.byNode[name], d.Name)
		}
	}
}

// tell stores the attempt, and has whoever allocates devices know of its domains.
func (a *attempt) tell(state fwk.PodGroupCycleState) {
	domains := make(map[*fwk.Placement]placed.Domain)
	for p, c := range a.choices {
		if len(c.domains) == 1 {
			domains[p] = placed.Domain{Key: a.wish.Key, Name: c.domains[0]}
		}
	}
	placed.Tell(state, placed.Placements{Listed: a.listed, Domains: domains})
	state.Write(stateKey, a)
}
