package planning

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// inNoDomain is the reason if no node was asked.
const inNoDomain = "node(s) in no such domain or not in that of pods of the group that have a node"

// tryDomains looks for a plan within one domain, or, if that is only preferred, in as few domains as possible.
func (a *attempt) tryDomains() error {
	areas := a.areas()
	if a.gang.Wish.Required {
		areas = slices.DeleteFunc(areas, func(where area) bool { return !where.running })
	}
	for i := range areas {
		a.measure(&areas[i])
	}
	a.asks = a.mostAsks()
	if fits, err := a.tryEach(areas, len(a.gang.Pods)); fits || err != nil {
		return err
	}
	if !a.gang.Wish.Required {
		return a.fill(areas)
	}
	if a.gang.Need < len(a.gang.Pods) {
		a.asks = a.mostAsks()
		if fits, err := a.tryEach(areas, a.gang.Need); fits || err != nil {
			return err
		}
	}
	if a.out.Left == nil {
		return a.tryLargest(areas)
	}
	return nil
}

// areas returns the domains that the candidates are in, sorted by name.
func (a *attempt) areas() (areas []area) {
	var nodes []*v1.Node
	for _, i := range a.candidates {
		nodes = append(nodes, a.nodes[i])
	}
	key := a.gang.Wish.Key
	here := a.running()
	for _, d := range domain.Split(key, nodes, a.pools) {
		where := area{name: d.Name, running: here == nil || here.Has(d.Name), others: a.blocking(d.Name)}
		for _, at := range d.Nodes {
			where.nodes = append(where.nodes, a.candidates[at])
		}
		areas = append(areas, where)
	}
	return areas
}

func (a *attempt) pools(node *v1.Node) []*inventory.NodePool {
	return a.classes[0].view.Site(node).Pools
}

// running returns the domains that contain all nodes of the gang's running pods, nil if there are no such nodes.
func (a *attempt) running() (common sets.Set[string]) {
	on := sets.New(a.gang.On...)
	for _, node := range a.nodes {
		if !on.Has(node.Name) {
			continue
		}
		names := sets.New[string]()
		for _, d := range domain.Split(a.gang.Wish.Key, []*v1.Node{node}, a.pools) {
			names.Insert(d.Name)
		}
		if common == nil {
			common = names
		} else {
			common = common.Intersection(names)
		}
	}
	return common
}

// tryEach tries the domains that may have room for need pods, one after the other. If need is the whole gang, it starts
// with the tightest, so that larger gaps stay whole; otherwise with the largest, where the most pods fit. It reports
// whether the gang fits.
func (a *attempt) tryEach(areas []area, need int) (bool, error) {
	var order []*area
	for i := range areas {
		if areas[i].most >= need {
			order = append(order, &areas[i])
		}
	}
	slices.SortStableFunc(order, func(x, y *area) int {
		byRoom := cmp.Compare(x.room, y.room)
		if need < len(a.gang.Pods) {
			byRoom = -byRoom
		}
		return cmp.Or(boolToInt(y.running)-boolToInt(x.running), boolToInt(x.isDoubtful(need))-boolToInt(y.isDoubtful(need)), byRoom)
	})
	for _, where := range order {
		if a.asks <= 0 {
			a.out.GaveUp = true
			break
		}
		result, err := a.try(*where, need)
		if err != nil || result.Fits() {
			return err == nil, err
		}
	}
	return false, nil
}

// tryLargest tries the domain with room for the most pods, to find out what is missing there.
func (a *attempt) tryLargest(areas []area) error {
	if len(areas) == 0 {
		a.rest.Reset()
		for class := range a.classes {
			for _, node := range a.candidates {
				a.rest.Note(class, node, inNoDomain)
			}
		}
		a.note(make([]int, len(a.classes)))
		return nil
	}
	largest := slices.MaxFunc(areas, func(x, y area) int { return cmp.Or(cmp.Compare(x.most, y.most), cmp.Compare(x.room, y.room)) })
	_, err := a.try(largest, a.gang.Need)
	return err
}

// fill tries the nodes domain by domain, and last the nodes that are in no domain.
func (a *attempt) fill(areas []area) error {
	a.out.GaveUp, a.out.Pending, a.out.Fit, a.out.Left = false, nil, 0, nil
	a.asks = a.mostAsks() // A domain that is only preferred does not keep a gang from any node.
	var order []int
	rooms := make([]domain.Room, len(areas))
	for i := range areas {
		if len(a.gang.On) > 0 && areas[i].running {
			order = appendNew(order, areas[i].nodes)
		}
		if !areas[i].unknown {
			rooms[i] = domain.Room{Name: areas[i].name, Pods: areas[i].room}
		}
	}
	for _, i := range domain.Choose(rooms, len(a.gang.Pods)) {
		order = appendNew(order, areas[i].nodes)
	}
	_, err := a.try(area{nodes: appendNew(order, a.candidates)}, a.gang.Need)
	return err
}
