package allocator

import (
	"context"
	"iter"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/search"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// A Task is a list of claims to allocate together, with everything resolved that does not depend on the node.
// It is immutable.
type Task task.Task

// Prepare resolves the claims. It never fails. Err and Solve return the errors later, in their order among
// the errors that only a node reveals.
func (s *Solver) Prepare(claims []*resourceapi.ResourceClaim) *Task {
	return (*Task)(task.Prepare((*task.Settings)(s), claims))
}

// Solve looks for devices for all claims of the task at once. An error means that it is unknown whether there
// is a solution, because a part is missing that could have made one: a class does not exist, a selector
// cannot be evaluated, a feature is off. It does not mean "does not fit". If the context ends, the error
// wraps ErrInterrupted and the context's cause. If the context's selector.Budget does not suffice, the error
// is a selector.Pending.
func (t *Task) Solve(ctx context.Context, site NodeView) (*Outcome, error) {
	return outcomeOf(search.Solve(ctx, (*task.Task)(t), site))
}

// Rate is Solve for callers that only need the value of the best plan, to compare nodes. For a task without
// claims that is the value of taking the CPU and memory that the site says, and no devices.
func (t *Task) Rate(ctx context.Context, site NodeView) (*Outcome, error) {
	return outcomeOf(search.Rate(ctx, (*task.Task)(t), site))
}

// Check is Solve for callers that only need to know whether there is a solution. It takes half the time, and
// ignores the objective of the site.
func (t *Task) Check(ctx context.Context, site NodeView) (*Outcome, error) {
	return outcomeOf(search.Check(ctx, (*task.Task)(t), site))
}

// Err returns the first error of the claims that no node can cure, or nil.
func (t *Task) Err() error { return (*task.Task)(t).Err() }

// AppendKey appends a text that is equal for tasks with the same solutions on every node, regardless of the
// claims and of the names of requests and classes.
func (t *Task) AppendKey(b []byte) []byte { return (*task.Task)(t).AppendKey(b) }

// NeedsDevices reports whether any claim requests devices. A claim without requests is allocated without
// devices, on any node.
func (t *Task) NeedsDevices() bool { return (*task.Task)(t).NeedsDevices() }

// HasAlternatives reports whether any request has alternatives, so that solutions may differ in quality.
func (t *Task) HasAlternatives() bool { return (*task.Task)(t).HasAlternatives() }

// Interested reports whether any request of the task could ever use a device of a pool: the device matches,
// or a selector fails on it. Holders and reachability of the device do not matter. If devices are named, only
// these count, unless the pool has counters that devices share. A request for all devices is interested in
// every pool that is not complete, because it must wait for it. If the context or its budget ends first,
// Interested returns true.
func (t *Task) Interested(ctx context.Context, pool *inventory.NodePool, devices ...string) bool {
	return (*task.Task)(t).Interested(ctx, pool, devices...)
}

// Classes yields the names of the device classes that the task refers to.
func (t *Task) Classes() iter.Seq[string] { return (*task.Task)(t).Classes() }

// A NodeView is the view of a node on which devices are looked for: the node, its pools in the order in which
// they are tried, and their usage. It may also hold an Objective that ranks plans.
type NodeView = search.NodeView

// ClassMissing is the error in Err's chain if a device class does not exist.
type ClassMissing = task.ClassMissing

// ErrInterrupted marks the error of a search whose context ended.
var ErrInterrupted = search.ErrInterrupted

// DeviceError reports that a request cannot be judged because of the data of one device. Errors of selectors
// have the type selector.Error instead.
type DeviceError = search.DeviceError
