package trial

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/gang"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// Pod is a pod of a gang.
type Pod struct {
	*v1.Pod
	// Open are its claims that have no allocation, in the order of pod.spec.resourceClaims. Other pods may use them too.
	Open []*resourceapi.ResourceClaim
	// Usable reports whether the claims that have an allocation can be used on a node; nil stands for all nodes.
	Usable func(*v1.Node) bool
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
	// Classes has the pods of the gang that are alike, class by class. With Alike, all open claims are of one pod each.
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
	// users is by how many pods of the gang an open claim is used.
	users map[types.UID]int
	// used is how many pods of each class are placed.
	used []int
	// on is what is planned on nodes where pods are, by position of the node.
	on map[int]*onNode
	// homes has the nodes on which open claims are planned.
	homes map[types.UID]int
	tasks map[string]*allocator.Task
	steps []step
	// pending is why some answer is Unknown, nil if there was none or if it just takes too long.
	pending error
	// shared is set if any claim is used by several of the pods.
	shared bool
}

// step is a pod that was added, and how to take it away.
type step struct {
	class, node int
	pod         *Pod
	// changed has what was planned on nodes before, and new are the claims that are planned since.
	changed map[int]*onNode
	new     []types.UID
}

// New makes a trial without any pod.
func New(ctx context.Context, world World) *Trial {
	t := &Trial{
		World: world, ctx: ctx, used: make([]int, len(world.Classes)), users: make(map[types.UID]int),
		on: make(map[int]*onNode), homes: make(map[types.UID]int), tasks: make(map[string]*allocator.Task),
	}
	for _, class := range world.Classes {
		for i := range class {
			for _, claim := range class[i].Open {
				t.users[claim.UID]++
				t.shared = t.shared || t.users[claim.UID] > 1
			}
		}
	}
	return t
}

// Apart reports whether devices that pods get on one node make no difference on others.
func (t *Trial) Apart() bool { return !t.Tied && !t.shared }

// Pending is why it could not be said of some node whether it has devices: an expression is still being evaluated. It
// is nil otherwise.
func (t *Trial) Pending() error { return t.pending }

// Add implements gang.Judge.
func (t *Trial) Add(class, node int) gang.Answer {
	pod := &t.Classes[class][t.used[class]]
	if pod.Usable != nil && !pod.Usable(t.Nodes[node]) {
		return gang.No
	}
	s := step{class: class, node: node, pod: pod, changed: make(map[int]*onNode)}
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

// undo takes back what a step has planned.
func (t *Trial) undo(s *step) {
	for node, before := range s.changed {
		if before == nil {
			delete(t.on, node)
		} else {
			t.on[node] = before
		}
	}
	for _, claim := range s.new {
		delete(t.homes, claim)
	}
}
