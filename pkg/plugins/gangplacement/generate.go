package gangplacement

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/internal/gang/workload"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// GeneratePlacements implements fwk.PlacementGeneratePlugin. The constraints of the API come first, as in
// TopologyPlacementGenerator; the domains of the group's annotations divide the resulting placements. A composite group
// has no Quartermaster annotations, but its groups may.
func (pl *Plugin) GeneratePlacements(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, parent *fwk.Placement) (*fwk.GeneratePlacementsResult, *fwk.Status) {
	var wish domain.Wish
	if object := group.GetPodGroup(); object != nil {
		var err error
		if wish, err = domain.Of(object.Annotations); err != nil {
			return nil, kube.Of(fwk.UnschedulableAndUnresolvable, err)
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

// divide adds placements for the domains of the group's wish.
func (pl *Plugin) divide(ctx context.Context, a *attempt, parents []*fwk.Placement) *fwk.Status {
	running, err := pl.runningDomains(a.wish.Key, a.group)
	if err != nil {
		return kube.Failed(err)
	}
	if a.wish.Required {
		if problem := running.problem(a.wish.Key); problem != "" {
			return kube.New(fwk.UnschedulableAndUnresolvable, problem)
		}
	}
	a.running = running
	for _, parent := range parents {
		if tooMany := pl.divideOne(ctx, a, parent); tooMany != nil {
			err = tooMany
		}
	}
	if len(a.listed) == 0 && err != nil {
		return kube.Of(fwk.UnschedulableAndUnresolvable, err)
	}
	if len(a.listed) == 0 && len(parents) > 0 {
		return kube.New(fwk.UnschedulableAndUnresolvable, noDomain(a, parents))
	}
	return nil
}

// divideOne adds a placement for each domain that has nodes in the parent. If a domain is only preferred, it adds more
// for groups that fit into no single domain: several domains together, and last all nodes. These are all if there are too many domains, which
// is an error if one is required.
func (pl *Plugin) divideOne(ctx context.Context, a *attempt, parent *fwk.Placement) error {
	nodes := make([]*v1.Node, len(parent.Nodes))
	for i, info := range parent.Nodes {
		nodes[i] = info.Node()
	}
	domains := domain.Split(a.wish.Key, nodes, pl.poolsOf)
	if a.wish.Required {
		domains = slices.DeleteFunc(domains, func(d domain.Domain) bool { return !a.running.allows(d.Name) })
	}
	switch tooMany := domain.TooMany(domains, len(nodes)); {
	case tooMany && a.wish.Required:
		return fmt.Errorf("the PodGroup needs a domain by %s (%s) and %d nodes are in %d domains; name an attribute with fewer values",
			a.wish.Key, domain.RequiredAnnotation, len(nodes), len(domains))
	case tooMany:
		domains = nil
	}
	for _, d := range domains {
		a.add(subset(parent, d.Name, d.Nodes), []string{d.Name})
	}
	if a.wish.Required {
		return nil
	}
	a.remember(parent, domains)
	pl.join(ctx, a, parent, domains)
	a.addLast(parent)
	return nil
}

// join adds placements of several domains: those with the most free devices, in steps, because each placement costs an
// attempt for the whole group. ScorePlacement counts how many of these domains a group uses.
func (pl *Plugin) join(ctx context.Context, a *attempt, parent *fwk.Placement, domains []domain.Domain) {
	rooms, total := make([]domain.Room, len(domains)), 0
	for i, d := range domains {
		rooms[i] = domain.Room{Name: d.Name, Pods: pl.free(ctx, a.wish.Key, []string{d.Name}, subset(parent, d.Name, d.Nodes).Nodes, nil)}
		total += rooms[i].Pods
	}
	order := domain.Choose(rooms, total) // All domains with free devices, the largest first.
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

// subset returns a placement with some nodes of a parent. Its name begins with the parent's.
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

// poolsOf returns the pools of a node, nil if the inventory is not available.
func (pl *Plugin) poolsOf(node *v1.Node) []*inventory.NodePool {
	if state := pl.state(); state != nil {
		return state.Inventory.OnNode(node)
	}
	return nil
}

// noDomain returns the message for a group that requires a domain and has none.
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

// A choice describes a placement.
type choice struct {
	// domains are the domains that it consists of; none if it contains all nodes of a parent.
	domains []string
	// last is true for a placement that exists only because no domain is required.
	last bool
}

// An attempt is the state of an attempt to schedule a group. It is stored in the group's cycle state.
type attempt struct {
	group   fwk.PodGroupInfo
	wish    domain.Wish
	running running
	listed  []*fwk.Placement
	choices map[*fwk.Placement]*choice
	// takesDevices is true if there are several placements, and the devices that the group leaves decide. kind selects
	// the pools with devices that the group could take.
	takesDevices bool
	kind         kind
	// byNode holds the domains of nodes, by node name, if a domain is preferred.
	byNode map[string][]string
}

// stateKey is the key of an attempt in the group's cycle state.
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

// remember stores the domains of nodes.
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

// tell stores the attempt, and the domains of its placements for the plugin that allocates devices.
func (a *attempt) tell(state fwk.PodGroupCycleState) {
	domains := make(map[*fwk.Placement]workload.Chosen)
	for p, c := range a.choices {
		if len(c.domains) == 1 {
			domains[p] = workload.Chosen{Key: a.wish.Key, Name: c.domains[0]}
		}
	}
	workload.Tell(state, workload.Placements{Listed: a.listed, Domains: domains})
	state.Write(stateKey, a)
}
