package trial

import (
	"encoding/binary"
	"errors"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/gang"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// onNode is what is planned on a node. It is immutable.
type onNode struct {
	// claims are those without allocation of the pods on the node, each once, but for those that are planned on
	// another node.
	claims []*resourceapi.ResourceClaim
	// key says by class whose claims these are, "" if any of them is used by several pods.
	key string
	// results has what each of the claims gets. It is nil if that makes no difference yet.
	results []resourceapi.AllocationResult
}

// addDevices plans devices for a pod on a node, together with those that are there.
func (t *Trial) addDevices(s *step) gang.Answer {
	next := &onNode{}
	if before := t.on[s.node]; before != nil {
		next.claims, next.key = slices.Clip(before.claims), before.key
	}
	for _, claim := range s.pod.Open {
		home, planned := t.homes[claim.UID]
		switch {
		case !planned:
			next.claims = append(next.claims, claim)
			t.homes[claim.UID] = s.node
			s.new = append(s.new, claim.UID)
		case home != s.node:
			if answer := t.reach(s, claim, home); answer != gang.Yes {
				return answer
			}
		}
	}
	if len(s.new) == 0 {
		return gang.Yes
	}
	next.key += string(binary.AppendUvarint(nil, uint64(s.class)))
	results, answer := t.solve(next, t.site(s.node), t.Tied || t.shared)
	if answer == gang.No && t.Tied {
		return t.rearrange(s, next)
	}
	if answer != gang.Yes {
		return answer
	}
	next.results = results
	if !t.keepsReach(s.node, next) {
		return gang.Unknown // Other devices might do, which nobody looks for.
	}
	t.put(s, s.node, next)
	return gang.Yes
}

// put plans something else on a node, and notes what was planned before.
func (t *Trial) put(s *step, node int, planned *onNode) {
	if _, noted := s.changed[node]; !noted {
		s.changed[node] = t.on[node]
	}
	t.on[node] = planned
}

// site is what the allocator is to know about a node: what the gang gets elsewhere is in use.
func (t *Trial) site(node int) allocator.Site {
	site := t.Site(t.Nodes[node])
	if t.Tied || t.shared {
		site.Usage = ledger.WhatIf(site.Usage, nil, t.plannedBut(node))
	}
	return site
}

// plannedBut returns what is planned for the gang but for some nodes.
func (t *Trial) plannedBut(nodes ...int) []ledger.Use {
	var uses []ledger.Use
	for node, planned := range t.on {
		if slices.Contains(nodes, node) {
			continue
		}
		for i := range planned.results {
			uses = append(uses, ledger.Use{Claim: ledger.RefTo(planned.claims[i]), Allocation: &planned.results[i]})
		}
	}
	return uses
}

// solve looks for devices for all claims on a node. The results are nil unless they are wanted.
func (t *Trial) solve(planned *onNode, site allocator.Site, wanted bool) ([]resourceapi.AllocationResult, gang.Answer) {
	task := t.task(planned)
	if task.Err() != nil {
		t.pending = task.Err()
		return nil, gang.No
	}
	look := task.Check
	if wanted {
		look = task.Solve
	}
	outcome, err := look(t.ctx, site)
	switch {
	case err != nil:
		if errors.Is(err, selector.ErrPending) {
			t.pending = err
			return nil, gang.Unknown
		}
		if t.ctx.Err() != nil {
			return nil, gang.Unknown
		}
		return nil, gang.No // The node has a problem of its own, which its Filter tells.
	case outcome.Fits():
		return outcome.Results, gang.Yes
	}
	defer outcome.Release()
	if outcome.GaveUp {
		return nil, gang.Unknown
	}
	return nil, gang.No
}

// task returns the task for what is planned on a node. As long as each claim is one pod's, it is the same for all nodes
// with as many pods of each class, in the same order.
func (t *Trial) task(planned *onNode) *allocator.Task {
	if t.shared {
		return t.Solver.Prepare(planned.claims)
	}
	task := t.tasks[planned.key]
	if task == nil {
		task = t.Solver.Prepare(planned.claims)
		t.tasks[planned.key] = task
	}
	return task
}
