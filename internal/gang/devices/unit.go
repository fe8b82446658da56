package devices

import (
	"errors"
	"slices"
	"strconv"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/gang/search"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// A unit is a list of claims that are allocated at once: those that are used on one node and nowhere else, or one claim
// that is used on several nodes. It is immutable.
type unit struct {
	claims []*resourceapi.ResourceClaim
	// nodes are the nodes where the claims are used.
	nodes []int
	// key identifies the claims by the classes of their pods. It is valid only if no claim is shared.
	key string
	// modesty is the number of alternatives that were removed from the front of each request.
	modesty int
	// results holds the allocations of the claims, and uses the pools in them. Both are nil if nothing is planned, or
	// if the choice does not matter yet.
	results []resourceapi.AllocationResult
	uses    []inventory.PoolID
}

// with returns the unit with planned allocations.
func (u *unit) with(results []resourceapi.AllocationResult) *unit {
	next := *u
	next.results, next.uses = results, nil
	for i := range results {
		for used := range ledger.Used(&results[i]) {
			if id := ledger.PoolOf(used); !slices.Contains(next.uses, id) {
				next.uses = append(next.uses, id)
			}
		}
	}
	return &next
}

// addDevices plans devices for a pod on a node, together with the devices of the pods already there.
func (t *Trial) addDevices(s *step) search.Answer {
	changed := t.addClaims(s)
	for _, number := range changed {
		wanted := !t.Apart() || slices.ContainsFunc(t.units[number].nodes, t.takes)
		results, answer := t.find(t.units[number], t.Site, t.plannedBut(number), wanted)
		if answer == search.No && !t.Apart() {
			return t.rearrange(s, changed)
		}
		if answer != search.Yes {
			return answer
		}
		t.put(s, number, t.units[number].with(results))
	}
	return search.Yes
}

// addClaims adds the claims of a pod to the units, and returns the numbers of the units that need other devices.
func (t *Trial) addClaims(s *step) (changed []int) {
	next := unit{nodes: []int{s.node}}
	if before := t.units[s.node]; before != nil {
		next.claims, next.key = slices.Clip(before.claims), before.key
	}
	had := len(next.claims)
	claims, kind := s.pod.OpenOn(t.Nodes[s.node])
	for _, claim := range claims {
		on := t.on[claim.UID]
		if slices.Contains(on, s.node) {
			continue
		}
		t.use(s, claim.UID, append(slices.Clip(on), s.node))
		if len(on) == 0 {
			next.claims = append(next.claims, claim)
		} else if t.spread(s, claim, on) {
			changed = append(changed, t.numbers[claim.UID])
		}
	}
	if len(next.claims) > had {
		next.key += strconv.Itoa(s.class) + kind + " "
		t.put(s, s.node, &next)
		changed = append(changed, s.node)
	}
	return changed
}

// find looks for devices for a unit, given the plans of other units. It returns results only if wanted is set.
func (t *Trial) find(u *unit, site sites, beside []*unit, wanted bool) ([]resourceapi.AllocationResult, search.Answer) {
	task := t.task(u)
	if task.Err() != nil {
		t.pending = task.Err()
		return nil, search.No
	}
	if len(u.nodes) > 1 {
		return t.findForSeveral(task, u, site, beside)
	}
	return t.search(task, t.besides(t.ownFirst(site(t.Nodes[u.nodes[0]])), beside), wanted)
}

// search asks the allocator for devices.
func (t *Trial) search(task *allocator.Task, site allocator.NodeView, wanted bool) ([]resourceapi.AllocationResult, search.Answer) {
	look := task.Check
	if wanted {
		look = task.Solve
	}
	outcome, err := look(t.ctx, site)
	switch {
	case err != nil:
		if errors.Is(err, selector.ErrPending) {
			t.pending = err
			return nil, search.Unknown
		}
		if t.ctx.Err() != nil {
			return nil, search.Unknown
		}
		return nil, search.No // The node has a problem of its own; its Filter reports it.
	case outcome.Fits():
		return outcome.Results, search.Yes
	}
	defer outcome.Release()
	if outcome.GaveUp {
		return nil, search.Unknown
	}
	return nil, search.No
}

// A taskKey identifies units with the same task.
type taskKey struct {
	claims  string
	modesty int
}

// task returns the allocator task of a unit. If no claim is shared, nodes with the same pods by class, in the same
// order, share a task.
func (t *Trial) task(u *unit) *allocator.Task {
	if t.shares() {
		return t.Solver.Prepare(u.claims)
	}
	key := taskKey{u.key, u.modesty}
	task := t.tasks[key]
	if task == nil {
		task = t.Solver.Prepare(u.claims)
		t.tasks[key] = task
	}
	return task
}
