package trial

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/gang"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// mostEffort bounds the time that a trial spends on rearranging what is planned, to a second or so: a search for devices
// counts one, and one more for each claimsPerEffort claims that are planned beside it.
const (
	mostEffort      = 20_000
	claimsPerEffort = 8
)

// Pod is a pod of a gang.
type Pod struct {
	*v1.Pod
	// Open are its claims that have no allocation, in the order of pod.spec.resourceClaims. Other pods may use them too.
	Open []*resourceapi.ResourceClaim
	// Usable reports whether the claims that have an allocation can be used on a node; nil stands for all nodes.
	Usable func(*v1.Node) bool
	// Made is the claim that is made for the pod's extended resources (KEP-5004); nil if devices back none of them.
	Made *Made
}

// Made is a claim of one pod that is made when it is known on which node that runs: devices back only what no device plugin
// offers there.
type Made struct {
	// Most is the claim where no device plugin offers anything.
	Most *resourceapi.ResourceClaim
	// On returns the claim for a node, nil if none is needed there, and a text of ASCII letters and dashes that is the same
	// for nodes where pods of the class need the same.
	On func(*v1.Node) (claim *resourceapi.ResourceClaim, kind string)
	// Varies is set if the claim is not the same on all nodes.
	Varies bool
}

// OpenOn returns the claims that need devices if the pod is on a node, and a text that is the same for nodes where pods of
// its class need the same.
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

// Others is what pods need besides devices. Like a gang.Judge it has a state.
type Others interface {
	// Add adds a pod of a class to a node if it fits there.
	Add(class, node int, pod *v1.Pod) gang.Answer
	// Remove takes away the pod that was added last.
	Remove()
}

// World is what a trial is made with. Nothing of it changes while the trial is used.
type World struct {
	Solver *allocator.Solver
	// Nodes are those of the cluster; the trial knows them by their positions.
	Nodes []*v1.Node
	// Site is what the allocator is to know about a node, without an objective, and Valued with one.
	Site, Valued func(*v1.Node) allocator.Site
	// Classes has the pods of the gang that are alike, class by class: their open claims have the same specs, in the same
	// order, and are their own, or the same claims for all pods of the class.
	Classes [][]Pod
	// Tied is set if the pods may get devices that several nodes reach.
	Tied bool
	// Others may be nil: then there is nothing but devices.
	Others Others
}

// Trial has pods of a gang on nodes. It implements gang.Judge.
type Trial struct {
	World
	ctx context.Context
	// used is how many pods of each class are placed.
	used []int
	// units is what is planned. Those of nodes have the positions of these as numbers, those of shared claims the numbers
	// after that.
	units map[int]*unit
	// on has the nodes on which open claims are used. The lists are never changed.
	on map[types.UID][]int
	// numbers are those of the units of claims that several of the pods use.
	numbers map[types.UID]int
	tasks   map[taskKey]*allocator.Task
	steps   []step
	// effort is what is left of mostEffort.
	effort int
	// last is the view that was made last of what is planned.
	last plannedView
	// pending is why some answer is Unknown, nil if there was none or if it just takes too long.
	pending error
}

// step is a pod that was added, and how to take it away.
type step struct {
	class, node int
	pod         *Pod
	// units and on are what was there before.
	units map[int]*unit
	on    map[types.UID][]int
}

// New makes a trial without any pod.
func New(ctx context.Context, world World) *Trial {
	t := &Trial{
		World: world, ctx: ctx, used: make([]int, len(world.Classes)), effort: mostEffort,
		units: make(map[int]*unit), on: make(map[types.UID][]int), numbers: make(map[types.UID]int), tasks: make(map[taskKey]*allocator.Task),
	}
	users := make(map[types.UID]int)
	for _, class := range world.Classes {
		for i := range class {
			for _, claim := range class[i].Open {
				if users[claim.UID]++; users[claim.UID] == 2 {
					t.numbers[claim.UID] = len(world.Nodes) + len(t.numbers)
				}
			}
		}
	}
	return t
}

// Apart reports whether devices that pods get on one node make no difference on others.
func (t *Trial) Apart() bool { return !t.Tied && !t.shares() }

// shares reports whether any claim is used by several of the pods.
func (t *Trial) shares() bool { return len(t.numbers) > 0 }

// Pending is why it could not be said of some node whether it has devices: an expression is still being evaluated. It
// is nil otherwise.
func (t *Trial) Pending() error { return t.pending }

// Add implements gang.Judge.
func (t *Trial) Add(class, node int) gang.Answer {
	pod := &t.Classes[class][t.used[class]]
	if pod.Usable != nil && !pod.Usable(t.Nodes[node]) {
		return gang.No
	}
	s := step{class: class, node: node, pod: pod, units: make(map[int]*unit), on: make(map[types.UID][]int)}
	if answer := t.addDevices(&s); answer != gang.Yes {
		t.undo(&s)
		return answer
	}
	if t.Others != nil {
		if answer := t.Others.Add(class, node, pod.Pod); answer != gang.Yes {
			t.undo(&s)
			return answer
		}
	}
	t.used[class]++
	t.steps = append(t.steps, s)
	return gang.Yes
}

// Remove implements gang.Judge.
func (t *Trial) Remove() {
	last := &t.steps[len(t.steps)-1]
	if t.Others != nil {
		t.Others.Remove()
	}
	t.used[last.class]--
	t.undo(last)
	t.steps = t.steps[:len(t.steps)-1]
}

// put plans something else, and notes what was planned before.
func (t *Trial) put(s *step, number int, planned *unit) {
	if _, noted := s.units[number]; !noted {
		s.units[number] = t.units[number]
	}
	t.units[number] = planned
}

// use notes on which nodes a claim is used.
func (t *Trial) use(s *step, claim types.UID, nodes []int) {
	if _, noted := s.on[claim]; !noted {
		s.on[claim] = t.on[claim]
	}
	t.on[claim] = nodes
}

// undo takes back what a step has planned.
func (t *Trial) undo(s *step) {
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
