package trial

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Plan is where each pod of a gang goes, and what its claims get.
type Plan struct {
	Seats []Seat
	// Allocations has what open claims get, by UID.
	Allocations map[types.UID]*resourceapi.AllocationResult
}

// Seat is a pod on a node. Those that come first were placed first.
type Seat struct {
	Pod   *v1.Pod
	Node  string
	Class int
	// Claims are the open ones of the pod.
	Claims []*resourceapi.ResourceClaim
}

// Plan returns the plan for the pods that were added. Of all devices that a node has for its pods, it takes those that
// are best by the node's objective.
func (t *Trial) Plan() (*Plan, error) {
	plan := &Plan{Allocations: make(map[types.UID]*resourceapi.AllocationResult)}
	for _, s := range t.steps {
		plan.Seats = append(plan.Seats, Seat{Pod: s.pod.Pod, Node: t.Nodes[s.node].Name, Class: s.class, Claims: s.pod.Open})
	}
	for _, node := range slices.Sorted(maps.Keys(t.on)) {
		planned := t.on[node]
		if len(planned.claims) == 0 {
			continue
		}
		if err := t.choose(node, planned); err != nil {
			return nil, err
		}
		planned = t.on[node]
		for i, claim := range planned.claims {
			plan.Allocations[claim.UID] = &planned.results[i]
		}
	}
	return plan, nil
}

// choose plans the best devices on a node.
func (t *Trial) choose(node int, planned *onNode) error {
	site := t.Valued(t.Nodes[node])
	if t.Tied || t.shared {
		site.Usage = ledger.WhatIf(site.Usage, nil, t.plannedBut(node))
	}
	best := &onNode{claims: planned.claims, key: planned.key}
	// Tasks are shared by nodes, and so their results belong to the claims by position only.
	outcome, err := t.task(planned).Solve(t.ctx, site)
	if err == nil && outcome.Fits() {
		best.results = outcome.Results
		if t.keepsReach(node, best) {
			t.on[node] = best
			return nil
		}
	}
	if planned.results != nil {
		return nil // What was found while trying does.
	}
	if err != nil {
		return fmt.Errorf("look for devices for the pods of the group on node %s: %w", t.Nodes[node].Name, err)
	}
	return fmt.Errorf("look for devices for the pods of the group on node %s: %s", t.Nodes[node].Name, outcome.Reason())
}
