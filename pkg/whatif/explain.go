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

// Explanation says for all nodes why a pod does not fit.
type Explanation struct {
	// Pod is namespace/name.
	Pod string `json:"pod"`
	// Problem is the reason why no node fits at all, "" if it depends on the node.
	Problem string `json:"problem,omitempty"`
	// NotKnown is the reason why there is no answer because objects could not be read, "" if there
	// is one. If set, Problem and the lists of nodes are empty.
	NotKnown string `json:"notKnown,omitempty"`
	// Fits lists the nodes that fit.
	Fits []string `json:"fits,omitempty"`
	// Groups holds the other nodes, grouped by reason, with the largest group first.
	Groups []Group `json:"groups,omitempty"`
	// Nearest holds the nodes that lack the least, see Near.
	Nearest []Near `json:"nearest,omitempty"`
	// Missing lists the kinds of objects that could not be read.
	Missing []Missing `json:"missing,omitempty"`
	// Doubts lists objects that could not be read and may rule out nodes in Fits.
	Doubts []string `json:"doubts,omitempty"`
	// Unchecked lists what the pod asks for that was not checked.
	Unchecked []string `json:"unchecked,omitempty"`
}

// Kind is the kind of a reason why a pod does not fit on a node.
type Kind string

const (
	// Devices means that the node lacks devices.
	Devices Kind = "Devices"
	// Resources means that the node lacks CPU, memory or another resource.
	Resources Kind = "Resources"
	// Unwanted means that the node excludes the pod, or the pod the node.
	Unwanted Kind = "Unwanted"
	// Undecided means that the search on the node gave up.
	Undecided Kind = "Undecided"
)

// Group holds the nodes with the same reason.
type Group struct {
	Kind   Kind     `json:"kind"`
	Reason string   `json:"reason"`
	Nodes  []string `json:"nodes"`
	// Example explains the devices of the first node in full, nil if devices are not the reason.
	Example *allocator.Explanation `json:"example,omitempty"`
	// InFull is Example as a text of several lines. It names extended resources instead of the
	// claim.
	InFull string `json:"-"`
}

// nearestAtMost limits the nodes in Nearest. explainedAtMost limits the nodes that are compared for
// it: explaining in full costs more than searching.
const (
	nearestAtMost   = 3
	explainedAtMost = 500
	// triedAtMost limits the nodes that are checked for whether they would fit if all devices were
	// free.
	triedAtMost = 20
)

// Explain says why a pod does not fit on nodes. It looks at each node. The error is that of the
// context.
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

// wouldDo reports whether the devices of a node would fit, or might, if all were free.
func (s *Snapshot) wouldDo(ctx context.Context, q *question, node *v1.Node) bool {
	task, _, err := q.taskOn(node)
	if err != nil || task == nil {
		return false
	}
	pools, _ := s.poolsOn(node)
	outcome, err := task.Check(ctx, allocator.NodeView{Node: node, Pools: pools, Usage: ledger.New()})
	if err != nil {
		return false
	}
	defer outcome.Release()
	return outcome.Fits() || outcome.GaveUp
}

// obstacle is the reason why a pod does not fit on a node.
type obstacle struct {
	kind   Kind
	reason string
	// short is the shortage of a resource other than devices, nil if there is none. reason then
	// names the resource but not the amounts, which differ between nodes.
	short *shortfall
	// outcome is the result of the search for devices, nil if there was no search.
	outcome *allocator.Outcome
}

// explainNode returns why the pod does not fit on a node, nil if it fits.
func (s *Snapshot) explainNode(ctx context.Context, q *question, i int, node *v1.Node) (*obstacle, error) {
	if text := s.unwanted(q, node); text != "" {
		return &obstacle{kind: Unwanted, reason: text}, nil
	}
	found, err := s.lackingDevices(ctx, q, node)
	if found != nil || err != nil {
		return found, err
	}
	charge, err := s.chargeOn(ctx, q, node)
	switch {
	case err != nil && (ctx.Err() != nil || errors.Is(err, allocator.ErrInterrupted)):
		return nil, fmt.Errorf("looking for devices of node %s: %w", node.Name, err)
	case errors.Is(err, errNoPlan):
		return &obstacle{kind: Undecided, reason: err.Error()}, nil
	case err != nil:
		return &obstacle{kind: Resources, reason: onDevice(err)}, nil
	}
	if short := charge.lackingOf(s.freeOn(i, node)); short != nil {
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

// inPodsWords words a reason about extended resources without the claim, which usually does not
// even exist.
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

// onDevice returns the text of an error with the name of the device but not of its pool, so that
// nodes whose devices have the same problem and the same names share one reason.
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
