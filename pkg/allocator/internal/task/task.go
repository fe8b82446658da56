// Package task represents the claims to allocate, with their requests, alternatives and constraints, resolved
// as far as possible without a node. It knows nothing of searches.
package task

import (
	"context"
	"fmt"
	"iter"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// A Task is a list of claims to allocate together, with everything resolved that does not depend on the node.
// It is immutable: searches only read it.
type Task struct {
	settings *Settings
	claims   []*Claim
	// requests are all requests and alternatives, by their id.
	requests []*Request
	// kinds holds the first request of each kind.
	kinds []*Request
	// slotCount and constraintCount are the totals of all claims.
	slotCount, constraintCount int
	// all is set if any request has allocation mode All, admin if any has admin access.
	all, admin bool
	// allConstrained is set if the claim of a request with allocation mode All has
	// constraints.
	allConstrained bool
}

// Settings returns the settings of the task's solver.
func (t *Task) Settings() *Settings { return t.settings }

// Claims returns the claims, in their order.
func (t *Task) Claims() []*Claim { return t.claims }

// Requests returns all requests and alternatives, by their ID.
func (t *Task) Requests() []*Request { return t.requests }

// Kinds returns the first request of each kind, by the number of the kind.
func (t *Task) Kinds() []*Request { return t.kinds }

// Slots returns the number of requests of all claims; a request with its alternatives counts once.
func (t *Task) Slots() int { return t.slotCount }

// Constraints returns the number of constraints of all claims.
func (t *Task) Constraints() int { return t.constraintCount }

// WantsAll reports whether any request has allocation mode All.
func (t *Task) WantsAll() bool { return t.all }

// HasAdmin reports whether any request has admin access.
func (t *Task) HasAdmin() bool { return t.admin }

// TakesNothing reports whether any request takes nothing from others.
func (t *Task) TakesNothing() bool { return t.admin && !t.settings.AsUpstream }

// ConstrainsAll reports whether the claim of a request with allocation mode All has
// constraints.
func (t *Task) ConstrainsAll() bool { return t.allConstrained }

// Prepare resolves the claims. It never fails. Err and searches return the errors later, in their order among
// the errors that only a node reveals.
func Prepare(s *Settings, claims []*resourceapi.ResourceClaim) *Task {
	if s.Resolve != nil {
		return prepareResolved(s, claims)
	}
	return prepareAsIs(s, claims)
}

func prepareAsIs(s *Settings, claims []*resourceapi.ResourceClaim) *Task {
	slotCount, requestCount := 0, 0
	for _, api := range claims {
		slotCount += len(api.Spec.Devices.Requests)
		for i := range api.Spec.Devices.Requests {
			requestCount += max(1, len(api.Spec.Devices.Requests[i].FirstAvailable))
		}
	}
	t, storage, slots, requests := newTask(len(claims), slotCount, requestCount)
	t.settings = s
	for index, api := range claims {
		c := &storage[index]
		*c = Claim{Index: index, API: api, Constraints: api.Spec.Devices.Constraints, FirstConstraint: t.constraintCount, Most: resourceapi.AllocationResultsMaxSize}
		t.constraintCount += len(c.Constraints)
		start := len(slots)
		for i := range api.Spec.Devices.Requests {
			slots = append(slots, t.newSlot(c, len(slots), &api.Spec.Devices.Requests[i], requests))
		}
		c.Slots = slots[start:]
		t.claims[index] = c
	}
	return t
}

// smallTask is the memory of a task with one claim with one request, as most pods have. This code runs for
// every pod, and allocations dominate its time.
type smallTask struct {
	Task
	claimPointers   [1]*Claim
	claims          [1]Claim
	slots           [1]Slot
	requestPointers [2]*Request
	requests        [1]Request
}

// newTask allocates the memory of a task, one piece for each type.
func newTask(claims, slots, requests int) (*Task, []Claim, []Slot, []Request) {
	if claims == 1 && slots == 1 && requests == 1 {
		m := &smallTask{}
		m.Task.claims, m.Task.slotCount = m.claimPointers[:], 1
		m.Task.requests, m.kinds = m.requestPointers[:0:1], m.requestPointers[1:1]
		return &m.Task, m.claims[:], m.slots[:0], m.requests[:]
	}
	pointers := make([]*Request, 2*requests)
	t := &Task{
		claims: make([]*Claim, claims), slotCount: slots,
		requests: pointers[:0:requests], kinds: pointers[requests:requests],
	}
	return t, make([]Claim, claims), make([]Slot, 0, slots), make([]Request, requests)
}

// newSlot resolves a request. New requests take the next elements of storage.
func (t *Task) newSlot(c *Claim, id int, api *resourceapi.DeviceRequest, storage []Request) Slot {
	result := Slot{ID: id, Name: api.Name}
	start := len(t.requests)
	switch {
	case api.Exactly != nil:
		t.newRequest(c, exactSpec(api), storage)
	case len(api.FirstAvailable) == 0:
		result.Err = fmt.Errorf("claim %s request %s: neither exactly nor firstAvailable is set; "+
			"the request may use an API that this scheduler does not know", dra.Of(c.API), api.Name)
	case !t.settings.Features.PrioritizedList:
		result.Err = fmt.Errorf("claim %s request %s: has alternatives (firstAvailable) "+
			"but the feature DRAPrioritizedList is off", dra.Of(c.API), api.Name)
	default:
		for i := range api.FirstAvailable {
			t.newRequest(c, alternativeSpec(api, i), storage)
		}
	}
	result.Alternatives = t.requests[start:]
	if !t.settings.AsUpstream {
		result.leaveOut()
	}
	return result
}

// leaveOut removes alternatives that cannot be handled if others remain.
func (s *Slot) leaveOut() {
	failed := func(r *Request) bool { return r.Err != nil }
	first := slices.IndexFunc(s.Alternatives, failed)
	if rest := slices.DeleteFunc(slices.Clone(s.Alternatives), failed); first >= 0 && len(rest) > 0 {
		s.LeftOut, s.Alternatives = s.Alternatives[first].Err, rest
	}
}

// Err returns the first error of the claims that no node can cure, or nil.
func (t *Task) Err() error {
	for _, c := range t.claims {
		if c.Err != nil {
			return c.Err
		}
		for _, s := range c.Slots {
			if s.Err != nil {
				return s.Err
			}
			for _, r := range s.Alternatives {
				if r.Err != nil {
					return r.Err
				}
			}
		}
		if err := c.ConstraintErr(); err != nil {
			return err
		}
	}
	return nil
}

// NeedsDevices reports whether any claim requests devices. A claim without requests is allocated without
// devices, on any node.
func (t *Task) NeedsDevices() bool { return t.slotCount > 0 }

// HasAlternatives reports whether any request has alternatives, so that solutions may differ in quality.
func (t *Task) HasAlternatives() bool {
	return slices.ContainsFunc(t.requests, func(r *Request) bool { return r.Parent != "" })
}

// Interested reports whether any request of the task could ever use a device of a pool: the device matches,
// or a selector fails on it. Holders and reachability of the device do not matter. If devices are named, only
// these count, unless the pool has counters that devices share. A request for all devices is interested in
// every pool that is not complete, because it must wait for it. If the context or its budget ends first,
// Interested returns true.
func (t *Task) Interested(ctx context.Context, pool *inventory.NodePool, devices ...string) bool {
	if !pool.Partitions.Empty() {
		devices = nil
	}
	for _, r := range t.kinds {
		if r.Err != nil {
			continue
		}
		if r.All() && pool.State != inventory.Complete {
			return true
		}
		selection, err := t.settings.Evaluator.Select(ctx, pool, r.Wanted)
		if err != nil || mayMatch(pool, selection, devices) {
			return true
		}
	}
	return false
}

// mayMatch reports whether any of the named devices, or any device if there are no names, may match.
func mayMatch(pool *inventory.NodePool, selection *selector.Selection, devices []string) bool {
	if len(devices) == 0 {
		return !selection.Matches.Empty() || !selection.Failed.Empty()
	}
	if pool.Unique() { // Avoids a scan of a large pool for each device and pod.
		return slices.ContainsFunc(devices, func(name string) bool {
			i, found := pool.Position(name)
			return found && (selection.Matches.Has(i) || selection.Failed.Has(i))
		})
	}
	for i := range pool.Devices {
		if slices.Contains(devices, pool.Devices[i].Name) && (selection.Matches.Has(i) || selection.Failed.Has(i)) {
			return true
		}
	}
	return false
}

// Classes yields the names of the device classes that the task refers to.
func (t *Task) Classes() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, r := range t.requests {
			if !yield(r.ClassName) {
				return
			}
		}
	}
}

// prepareResolved is prepare for claims that must be resolved first. A claim that cannot be resolved gets no
// requests and an error. The API versions that need this do not limit the devices of a claim; each request is
// for one device.
func prepareResolved(s *Settings, claims []*resourceapi.ResourceClaim) *Task {
	resolved := slices.Clone(claims)
	errs := make([]error, len(claims))
	for i, claim := range claims {
		known, err := s.Resolve(claim)
		if err != nil {
			unknown := *claim
			unknown.Spec = resourceapi.ResourceClaimSpec{}
			known, errs[i] = &unknown, err
		}
		resolved[i] = known
	}
	t := prepareAsIs(s, resolved)
	for i, c := range t.claims {
		c.Err = errs[i]
		if resolved[i] != claims[i] {
			c.Most = max(c.Most, len(c.Slots))
		}
	}
	return t
}
