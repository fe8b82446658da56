package whatif

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Explanation says for all nodes what keeps a pod from them.
type Explanation struct {
	// Pod is namespace/name.
	Pod string `json:"pod"`
	// Problem is why no node at all will do, "" if it depends on the node.
	Problem string `json:"problem,omitempty"`
	// NotKnown is why nothing can be told, because of what could not be read; "" if something can. Then it is neither a
	// problem, nor are there nodes.
	NotKnown string `json:"notKnown,omitempty"`
	// Fits are the nodes that would do.
	Fits []string `json:"fits,omitempty"`
	// Groups are the other nodes by what is in the way, most nodes first.
	Groups []Group `json:"groups,omitempty"`
	// Nearest are the nodes that lack the least, see Near.
	Nearest []Near `json:"nearest,omitempty"`
	// Missing are kinds of objects that could not be read.
	Missing []Missing `json:"missing,omitempty"`
	// Doubts lists objects that could not be read and may decide about nodes in Fits.
	Doubts []string `json:"doubts,omitempty"`
	// Unchecked is what the pod asks for that was not looked at.
	Unchecked []string `json:"unchecked,omitempty"`
}

// Kind is what a node lacks.
type Kind string

const (
	// Devices are what the node lacks.
	Devices Kind = "Devices"
	// Resources are what the node lacks: CPU, memory and so on.
	Resources Kind = "Resources"
	// Unwanted nodes do not want the pod, or the pod not them.
	Unwanted Kind = "Unwanted"
	// Undecided nodes are those on which the search gave up.
	Undecided Kind = "Undecided"
)

// Group is some nodes with the same in the way.
type Group struct {
	Kind   Kind     `json:"kind"`
	Reason string   `json:"reason"`
	Nodes  []string `json:"nodes"`
	// Example explains the devices of the first node in full, nil if they are not what is in the way.
	Example *allocator.Explanation `json:"example,omitempty"`
	// InFull is the example as a text of several lines, in the words of the pod.
	InFull string `json:"-"`
}

// nearestAtMost is how many of the nearest nodes are named, and explainedAtMost of how many nodes it is found out
// how near they are: explaining in full costs more than searching.
const (
	nearestAtMost   = 3
	explainedAtMost = 500
	// triedAtMost is how many nodes are asked whether they would do if nobody else had devices there.
	triedAtMost = 20
)

// Explain says what keeps a pod from nodes. It looks at each node, and the error is that of the context.
func (s *Snapshot) Explain(ctx context.Context, pod *v1.Pod) (*Explanation, error) {
	pod = stored(pod)
	q := s.ask(pod)
	e := &Explanation{Pod: Key(pod), Missing: s.missing, Unchecked: unchecked(pod)}
	if unread := s.notKnown(q); unread != nil {
		e.NotKnown = unread.Error()
		return e, nil
	}
	if q.problem != nil {
		e.Problem = q.problem.Error()
		return e, nil
	}
	groups := grouping{at: make(map[string]int)}
	explained, tried := 0, 0
	for i, node := range s.candidates() {
		found, err := s.explainNode(ctx, q, i, node)
		switch {
		case err != nil:
			return nil, err
		case found == nil:
			e.Fits = append(e.Fits, node.Name)
			continue
		}
		group := groups.add(found, node.Name)
		if found.outcome == nil {
			continue
		}
		if explained++; explained <= explainedAtMost || group.Example == nil {
			full := found.outcome.Explain()
			if group.Example == nil {
				group.Example, group.InFull = full, q.inPodsWords(node, full.String())
			}
			e.Nearest = addNear(e.Nearest, full, s.freeOn(i, node).lackingOf(q.askedOf(node)), func() bool {
				tried++
				return tried <= triedAtMost && s.wouldDo(ctx, q, node)
			})
		}
		found.outcome.Release()
	}
	slices.Sort(e.Fits)
	if len(e.Fits) > 0 {
		e.Doubts = s.doubted()
	}
	e.Groups = groups.sorted()
	for i := range e.Nearest {
		if node := s.nodes.get(e.Nearest[i].Node); node != nil {
			e.Nearest[i].InFull = q.inPodsWords(node, e.Nearest[i].Explanation.String())
		}
	}
	return e, nil
}

// wouldDo reports whether the devices of a node would do, or might, if no other claim had any.
func (s *Snapshot) wouldDo(ctx context.Context, q *question, node *v1.Node) bool {
	task, _, err := q.taskOn(node)
	if err != nil || task == nil {
		return false
	}
	pools, _ := s.poolsOn(node)
	outcome, err := task.Check(ctx, allocator.Site{Node: node, Pools: pools, Usage: ledger.New()})
	if err != nil {
		return false
	}
	defer outcome.Release()
	return outcome.Fits() || outcome.GaveUp
}

// ExplainNode says in full what keeps a pod from the devices of one node. It is nil if nothing does, or if it is
// something else than devices: reason says what.
func (s *Snapshot) ExplainNode(ctx context.Context, pod *v1.Pod, node *v1.Node) (full *allocator.Explanation, reason string, err error) {
	q := s.ask(stored(pod))
	if unread := s.notKnown(q); unread != nil {
		return nil, unread.Error(), nil
	}
	if q.problem != nil {
		return nil, q.problem.Error(), nil
	}
	found, err := s.explainNode(ctx, q, s.world.placeOf(node.Name), node)
	if found == nil || err != nil {
		return nil, "", err
	}
	if found.short != nil {
		found.reason = found.short.on("")
	}
	if found.outcome != nil {
		full = found.outcome.Explain()
		found.outcome.Release()
	}
	return full, found.reason, nil
}

// obstacle is what keeps a pod from a node.
type obstacle struct {
	kind   Kind
	reason string
	// short is of what there is too little besides devices, nil if of nothing. Then the reason says which resource, and
	// not yet how much, which is another number on each node.
	short *shortfall
	// outcome is that of the search for devices, nil if there was none.
	outcome *allocator.Outcome
}

// explainNode returns what keeps the pod from a node, nil if nothing does.
func (s *Snapshot) explainNode(ctx context.Context, q *question, i int, node *v1.Node) (*obstacle, error) {
	if text := s.unwanted(q, node); text != "" {
		return &obstacle{kind: Unwanted, reason: text}, nil
	}
	found, err := s.lackingDevices(ctx, q, node)
	if found != nil || err != nil {
		return found, err
	}
	if short := s.freeOn(i, node).lackingOf(q.askedOf(node)); short != nil {
		short.there = roomOf(node.Status.Allocatable).of(short.resource)
		return &obstacle{kind: Resources, reason: fmt.Sprintf("too little %s is left", short.resource), short: short}, nil
	}
	return nil, nil
}

func (s *Snapshot) lackingDevices(ctx context.Context, q *question, node *v1.Node) (*obstacle, error) {
	task, _, err := q.taskOn(node)
	if err != nil {
		return &obstacle{kind: Devices, reason: err.Error()}, nil
	}
	if task == nil {
		return nil, nil
	}
	site, _ := s.site(node)
	outcome, err := task.Check(ctx, site)
	switch {
	case err != nil && (ctx.Err() != nil || errors.Is(err, allocator.ErrInterrupted)):
		return nil, fmt.Errorf("looking for devices of node %s: %w", node.Name, err)
	case err != nil:
		return &obstacle{kind: Devices, reason: q.inPodsWords(node, onDevice(err))}, nil
	case outcome.Fits():
		return nil, nil
	case outcome.GaveUp:
		return &obstacle{kind: Undecided, reason: q.inPodsWords(node, outcome.Reason()), outcome: outcome}, nil
	}
	return &obstacle{kind: Devices, reason: q.inPodsWords(node, outcome.Reason()), outcome: outcome}, nil
}

// inPodsWords says a reason about extended resources without the claim, which usually does not even exist.
func (q *question) inPodsWords(node *v1.Node, reason string) string {
	if q.extended == nil {
		return reason
	}
	variant, err := q.extended.VariantOn(node.Name, q.offeredBy(node))
	if err != nil {
		return reason
	}
	return variant.InPodsWords(reason)
}

// onDevice is the text of an error with the name of the device, and not of its pool: nodes whose devices have the same
// problem and the same names say the same.
func onDevice(err error) string {
	var failed interface {
		error
		OnDevice() string
	}
	if errors.As(err, &failed) {
		return failed.OnDevice()
	}
	return err.Error()
}
