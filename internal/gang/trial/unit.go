package trial

import (
	"errors"
	"slices"
	"strconv"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/gang"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// unit is claims for which devices are looked for at once: those that are used on one node and nowhere else, or one that
// is used on several. It is immutable.
type unit struct {
	claims []*resourceapi.ResourceClaim
	// nodes are those where the claims are used.
	nodes []int
	// key says by class whose claims these are. It means something only if no claim is shared.
	key string
	// modesty is how many alternatives are left out of requests.
	modesty int
	// results has what each of the claims gets, and uses the pools of that. Both are nil if nothing is planned, or if that
	// makes no difference yet.
	results []resourceapi.AllocationResult
	uses    []inventory.PoolID
}

// with returns the unit with devices planned.
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

// addDevices plans devices for a pod on a node, together with those that are there.
func (t *Trial) addDevices(s *step) gang.Answer {
	changed := t.addClaims(s)
	for _, number := range changed {
		results, answer := t.find(t.units[number], t.Site, t.plannedBut(number), !t.Apart())
		if answer == gang.No && !t.Apart() {
			return t.rearrange(s, changed)
		}
		if answer != gang.Yes {
			return answer
		}
		t.put(s, number, t.units[number].with(results))
	}
	return gang.Yes
}

// addClaims adds the claims of a pod to the units, and returns the numbers of those for which devices have to be found.
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

// find looks for devices for a unit, beside those that are planned for others. The results are nil unless they are
// wanted.
func (t *Trial) find(u *unit, site sites, beside []*unit, wanted bool) ([]resourceapi.AllocationResult, gang.Answer) {
	task := t.task(u)
	if task.Err() != nil {
		t.pending = task.Err()
		return nil, gang.No
	}
	if len(u.nodes) > 1 {
		return t.findForSeveral(task, u, site, beside)
	}
	return t.search(task, t.besides(t.ownFirst(site(t.Nodes[u.nodes[0]])), beside), wanted)
}

// search has the allocator look for devices.
func (t *Trial) search(task *allocator.Task, site allocator.Site, wanted bool) ([]resourceapi.AllocationResult, gang.Answer) {
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

// taskKey is what tasks are the same for.
type taskKey struct {
	claims  string
	modesty int
}

// task returns the task of a unit. As long as each claim is one pod's, it is the same for all nodes with as many pods of
// each class, in the same order.
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
