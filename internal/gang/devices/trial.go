package devices

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/gang/search"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// mostEffort limits the time that a trial spends on rearranging plans to about a second. A search for devices counts
// one, plus one for each claimsPerEffort claims planned beside it.
const (
	mostEffort      = 20_000
	claimsPerEffort = 8
)

// A Pod is a pod of a gang with its claims.
type Pod struct {
	*v1.Pod
	// Open holds its claims without an allocation, in the order of pod.spec.resourceClaims. Other pods may use them
	// too.
	Open []*resourceapi.ResourceClaim
	// Allocated says on which nodes its allocated claims can be used; nil stands for all nodes.
	Allocated Allocated
	// Made is the claim for the pod's extended resources (KEP-5004); nil if devices back none of them.
	Made *Made
	// Account counts what its devices take of a node's own resources; nil if devices take none.
	Account Account
}

// Allocated are allocated claims.
type Allocated interface {
	// UsableOn reports whether they can be used on a node.
	UsableOn(*v1.Node) bool
}

// UsableOn reports whether the pod's allocated claims can be used on a node.
func (p *Pod) UsableOn(node *v1.Node) bool { return p.Allocated == nil || p.Allocated.UsableOn(node) }

// Made is a claim of one pod that is created once the pod's node is known: devices back only resources that no device
// plugin offers there.
type Made struct {
	// Most is the claim for nodes where no device plugin offers anything.
	Most *resourceapi.ResourceClaim
	// Variants has the claim for each node.
	Variants
	// Varies is set if the claim is not the same on all nodes.
	Varies bool
}

// Variants are the claims that a pod needs on different nodes.
type Variants interface {
	// On returns the claim for a node, nil if the pod needs none there. kind is a text of ASCII letters and dashes that
	// is equal for nodes where pods of the class need the same.
	On(*v1.Node) (claim *resourceapi.ResourceClaim, kind string)
}

// OpenOn returns the claims that need devices if the pod is on a node. kind is equal for nodes where pods of the class
// need the same.
func (p *Pod) OpenOn(node *v1.Node) (claims []*resourceapi.ResourceClaim, kind string) {
	made, kind := p.madeOn(node)
	if made == nil {
		return p.Open, kind
	}
	return append(slices.Clip(p.Open), made), kind
}

func (p *Pod) madeOn(node *v1.Node) (made *resourceapi.ResourceClaim, kind string) {
	if p.Made == nil {
		return nil, ""
	}
	return p.Made.On(node)
}

// Others decides about everything that pods need besides devices. Like a search.Judge it has a state.
type Others interface {
	// Add adds a pod of a class to a node if it fits there.
	Add(class, node int, pod *v1.Pod) search.Answer
	// Remove removes the pod that was added last.
	Remove()
}

// Sites are the nodes as the allocator sees them.
type Sites interface {
	// Site returns the allocator's site of a node, without an objective, and Valued with one.
	Site(*v1.Node) allocator.NodeView
	Valued(*v1.Node) allocator.NodeView
}

// World is the input of a trial. It must not change while the trial is used.
type World struct {
	Solver *allocator.Solver
	// Nodes are the nodes of the cluster; the trial uses their positions.
	Nodes []*v1.Node
	Sites
	// Classes holds the pods of the gang by class. The open claims of pods in a class have equal specs, in the same
	// order; each claim belongs to one pod, or is the same claim for all pods of the class.
	Classes [][]Pod
	// Shared is set if the pods may get devices that several nodes reach.
	Shared bool
	// Others may be nil: then only devices count. Books is nil unless pods have an Account.
	Others Others
	Books  Books
}

// A Trial places pods of a gang on nodes. It implements search.Judge.
type Trial struct {
	World
	ctx context.Context
	// used is the number of placed pods by class.
	used []int
	// units holds the units by number. The unit of a node has the node's position as its number; units of shared claims
	// have the numbers after that.
	units map[int]*unit
	// on holds the nodes where open claims are used, by UID. The slices are never changed.
	on map[types.UID][]int
	// numbers holds the unit numbers of claims that several of the pods use.
	numbers map[types.UID]int
	tasks   map[taskKey]*allocator.Task
	steps   []step
	// taking remembers the nodes where devices may take resources of the node. takingAll is set if allocated claims have such devices.
	taking    map[int]bool
	takingAll bool
	// effort is the rest of mostEffort.
	effort int
	// last caches the view that besides made last.
	last plannedView
	// pending is the reason for an Unknown answer; nil if there was none, or if the search only takes too long.
	pending error
}

// A step is a pod that was added, with the data to undo that.
type step struct {
	class, node int
	pod         *Pod
	// units and on hold the previous entries of the Trial.
	units map[int]*unit
	on    map[types.UID][]int
	// undo restores the Books, the last one first.
	undo []func()
}

// New returns a trial without any pods.
func New(ctx context.Context, world World) *Trial {
	t := &Trial{
		World: world, ctx: ctx, used: make([]int, len(world.Classes)), effort: mostEffort,
		units: make(map[int]*unit), on: make(map[types.UID][]int), numbers: make(map[types.UID]int), tasks: make(map[taskKey]*allocator.Task),
		taking: make(map[int]bool),
	}
	users := make(map[types.UID]int)
	for _, class := range world.Classes {
		for i := range class {
			t.takingAll = t.takingAll || world.Books != nil && class[i].Account != nil && class[i].Account.TakesAlready()
			for _, claim := range class[i].Open {
				if users[claim.UID]++; users[claim.UID] == 2 {
					t.numbers[claim.UID] = len(world.Nodes) + len(t.numbers)
				}
			}
		}
	}
	return t
}

// Apart reports whether the devices that pods get on one node never affect other nodes.
func (t *Trial) Apart() bool { return !t.Shared && !t.shares() }

// shares reports whether any claim is shared by several of the pods.
func (t *Trial) shares() bool { return len(t.numbers) > 0 }

// Pending returns an error if a selector's expression was still being evaluated, so that the answer for some node is
// Unknown; nil otherwise.
func (t *Trial) Pending() error { return t.pending }

// Add implements search.Judge.
func (t *Trial) Add(class, node int) search.Answer {
	pod := &t.Classes[class][t.used[class]]
	if !pod.UsableOn(t.Nodes[node]) {
		return search.No
	}
	s := step{class: class, node: node, pod: pod, units: make(map[int]*unit), on: make(map[types.UID][]int)}
	if answer := t.addDevices(&s); answer != search.Yes {
		t.undo(&s)
		return answer
	}
	counted := t.count(&s)
	if counted == nil {
		t.undo(&s)
		return search.No
	}
	if t.Others != nil {
		if answer := t.Others.Add(class, node, counted); answer != search.Yes {
			t.undo(&s)
			return answer
		}
	}
	t.used[class]++
	t.steps = append(t.steps, s)
	return search.Yes
}

// Remove implements search.Judge.
func (t *Trial) Remove() {
	last := &t.steps[len(t.steps)-1]
	if t.Others != nil {
		t.Others.Remove()
	}
	t.used[last.class]--
	t.undo(last)
	t.steps = t.steps[:len(t.steps)-1]
}

// put replaces a unit, and saves the previous one in the step.
func (t *Trial) put(s *step, number int, planned *unit) {
	if _, noted := s.units[number]; !noted {
		s.units[number] = t.units[number]
	}
	t.units[number] = planned
}

// use sets the nodes where a claim is used, and saves the previous ones in the step.
func (t *Trial) use(s *step, claim types.UID, nodes []int) {
	if _, noted := s.on[claim]; !noted {
		s.on[claim] = t.on[claim]
	}
	t.on[claim] = nodes
}

// undo restores all that a step has changed.
func (t *Trial) undo(s *step) {
	for _, undo := range slices.Backward(s.undo) {
		undo()
	}
	for number, before := range s.units {
		if before == nil {
			delete(t.units, number)
		} else {
			t.units[number] = before
		}
	}
	for claim, before := range s.on {
		if before == nil {
			delete(t.on, claim)
		} else {
			t.on[claim] = before
		}
	}
}
