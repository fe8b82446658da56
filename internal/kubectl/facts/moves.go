package facts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// Limits of the search in Room.
const (
	// MovesAtMost is the largest number of pods that may have to move.
	MovesAtMost = 3
	// questionsAtMost bounds the checks whether a pod fits on a node.
	questionsAtMost = 200_000
)

// Advice describes moves that make room for a pod.
type Advice struct {
	// Fits is true if the pod fits without any move.
	Fits bool `json:"fits"`
	// Node is the node that the pod would get after the Moves, "" if no advice was found.
	Node string `json:"node,omitempty"`
	// Moves lists the pods that must move.
	Moves []Move `json:"moves,omitempty"`
	// Fewest is true if fewer moves are not enough or, without advice, if no moves are. It considers at most
	// MovesAtMost pods of one node, each moved once. It is false if the search hit a limit or gave up.
	Fewest bool `json:"fewest"`
	// Tried is the number of sets of pods that the search tried.
	Tried int `json:"tried"`
	// Unmovable counts pods with devices that cannot be moved, on nodes where moving all other pods would not help.
	Unmovable int `json:"unmovable,omitempty"`
}

// Move is a pod that would end and restart on another node, or on its own node with other devices.
type Move struct {
	Pod  string `json:"pod"`
	From string `json:"from"`
	To   string `json:"to"`
	// Controller is the controller that replaces the pod after it ends; "" if it has none.
	Controller string `json:"controller,omitempty"`
}

var errBound = errors.New("the search gave up")

// Room finds the fewest moves that make room for a pod. It moves pods on the pod's new node, and pods with devices
// that this node reaches; each of them fits afterwards, elsewhere or on its own node. It does not move pods of
// DaemonSets, static pods, terminating pods, and pods that share a claim. An error comes from the context.
func RoomFor(ctx context.Context, s *whatif.Snapshot, pod *v1.Pod) (*Advice, error) {
	return room(ctx, s, pod, questionsAtMost)
}

func room(ctx context.Context, s *whatif.Snapshot, pod *v1.Pod, questions int) (*Advice, error) {
	answer, err := s.Fit(ctx, pod)
	if err != nil {
		return nil, err
	}
	advice := &Advice{Fewest: true}
	if len(answer.Plans) > 0 {
		advice.Fits, advice.Node = true, answer.Plans[0].Node
		return advice, nil
	}
	m := newMover(s, answer.Unplaced[0], questions)
	err = m.search(ctx, advice)
	if errors.Is(err, errBound) {
		m.doubtful, err = true, nil
	}
	advice.Fewest = !m.doubtful
	return advice, err
}

// search tries increasing numbers of moves, each on all nodes.
func (m *mover) search(ctx context.Context, advice *Advice) error {
	targets, err := m.targets(ctx, advice)
	if err != nil {
		return err
	}
	defer func() { advice.Tried = m.tried }()
	for count := 1; count <= MovesAtMost; count++ {
		for i := range targets {
			found, err := m.onNode(ctx, &targets[i], count)
			if err != nil {
				return err
			}
			if found != nil {
				advice.Node, advice.Moves = targets[i].node, found
				return nil
			}
		}
	}
	return nil
}

// target is a node on which the pod would fit without all movable pods.
type target struct {
	node    string
	movable []*movable
}

// targets returns the nodes on which moves can help.
func (m *mover) targets(ctx context.Context, advice *Advice) ([]target, error) {
	var targets []target
	unmovable := make(map[string]bool)
	for _, node := range m.nodes {
		candidates, fixed := m.candidates(node.Name)
		world, err := m.without(candidates)
		if err != nil {
			return nil, err
		}
		if ok, err := m.fits(ctx, world, m.pod, node.Name); err != nil {
			return nil, err
		} else if !ok {
			for _, key := range fixed {
				unmovable[key] = true
			}
			continue
		}
		if candidates, err = m.relevant(ctx, node.Name, candidates); err != nil {
			return nil, err
		}
		slices.SortStableFunc(candidates, func(a, b *movable) int {
			return cmp.Or(cmp.Compare(corev1helpers.PodPriority(a.pod), corev1helpers.PodPriority(b.pod)), cmp.Compare(a.key, b.key))
		})
		targets = append(targets, target{node.Name, candidates})
	}
	advice.Unmovable = len(unmovable)
	return targets, nil
}

// onNode tries each set of count pods.
func (m *mover) onNode(ctx context.Context, p *target, count int) ([]Move, error) {
	chosen := make([]*movable, 0, count)
	var try func(from int) ([]Move, error)
	try = func(from int) ([]Move, error) {
		if len(chosen) == count {
			return m.afterMoving(ctx, p.node, chosen)
		}
		for i := from; i <= len(p.movable)-(count-len(chosen)); i++ {
			chosen = append(chosen, p.movable[i])
			found, err := try(i + 1)
			if found != nil || err != nil {
				return found, err
			}
			chosen = chosen[:len(chosen)-1]
		}
		return nil, nil
	}
	return try(0)
}

// afterMoving returns the moves of the chosen pods that let the pod fit on a node; nil if the pod does not fit, or
// the chosen pods do not.
func (m *mover) afterMoving(ctx context.Context, node string, chosen []*movable) ([]Move, error) {
	m.tried++
	world, err := m.without(chosen)
	if err != nil {
		return nil, err
	}
	if ok, err := m.fits(ctx, world, m.pod, node); err != nil || !ok {
		return nil, err
	}
	r := &rearrangement{mover: m, world: world, node: node, gone: make(map[string]int), groups: make(map[string][]*movable)}
	for _, one := range chosen {
		r.gone[one.from]++
	}
	if ok, err := r.assign(ctx, chosen); err != nil || !ok {
		return nil, err
	}
	return r.moves(chosen), nil
}

func (m *mover) without(gone []*movable) (*whatif.Snapshot, error) {
	var removal whatif.Removal
	for _, one := range gone {
		removal.Pods = append(removal.Pods, one.key)
	}
	world, err := m.base.Without(removal)
	if err != nil {
		return nil, fmt.Errorf("look at the cluster without some pods: %w", err)
	}
	return world, nil
}

// fits checks one node, within the limit of checks. A search that gave up counts as no, and sets doubtful.
func (m *mover) fits(ctx context.Context, world *whatif.Snapshot, pod *v1.Pod, node string) (bool, error) {
	if m.questions++; m.questions > m.limit {
		return false, errBound
	}
	if ctx.Err() != nil {
		return false, fmt.Errorf("looking for moves: %w", context.Cause(ctx))
	}
	verdict, err := world.VerdictOn(ctx, pod, node)
	m.doubtful = m.doubtful || verdict == whatif.CannotTell && err == nil
	return verdict == whatif.Fits, err
}
