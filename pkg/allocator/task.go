package allocator

import (
	"context"
	"iter"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/search"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Task is a list of claims that are to be allocated together, with everything
// resolved that does not depend on the node. It is immutable.
type Task task.Task

// Prepare resolves the claims. It never fails: errors are kept and come out of
// Err and Solve, where they take the place that they have among the errors which
// only a node can bring to light.
func (s *Solver) Prepare(claims []*resourceapi.ResourceClaim) *Task {
	return (*Task)(task.Prepare((*task.Settings)(s), claims))
}

// Solve looks for devices for all claims of the task at once. Errors mean that nobody knows whether
// there is a solution, because something was left out that could have made one: a class is missing, a
// selector cannot be evaluated, a feature is off. They are not "does not fit".
// If the context ends, the error wraps ErrInterrupted and the context's cause. If it has
// a selector.Budget that does not suffice, the error is a selector.Pending.
func (t *Task) Solve(ctx context.Context, site Site) (*Outcome, error) {
	return outcomeOf(search.Solve(ctx, (*task.Task)(t), site))
}

// Rate is Solve for those who only want to know what the best plan is worth, with which nodes
// are compared.
func (t *Task) Rate(ctx context.Context, site Site) (*Outcome, error) {
	return outcomeOf(search.Rate(ctx, (*task.Task)(t), site))
}

// Check is Solve for those who only want to know whether there is a solution. It
// takes half the time, and has nothing to do with the objective of the site.
func (t *Task) Check(ctx context.Context, site Site) (*Outcome, error) {
	return outcomeOf(search.Check(ctx, (*task.Task)(t), site))
}

// Err returns the first problem of the claims that no node can cure, or nil.
func (t *Task) Err() error { return (*task.Task)(t).Err() }

// AppendKey appends a text that is the same for tasks which have the same solutions on
// every node, for whichever claims: what requests and classes are called makes no difference.
func (t *Task) AppendKey(b []byte) []byte { return (*task.Task)(t).AppendKey(b) }

// NeedsDevices reports whether any claim asks for devices. A claim may have no requests; it
// is allocated with nothing, on any node.
func (t *Task) NeedsDevices() bool { return (*task.Task)(t).NeedsDevices() }

// HasAlternatives reports whether any request has alternatives, so that solutions may
// be better or worse.
func (t *Task) HasAlternatives() bool { return (*task.Task)(t).HasAlternatives() }

// Interested reports whether any request of the task could ever use a device of a
// pool: it matches, or nobody can say because a selector fails on it. Who holds the
// device and which node reaches it does not matter. If devices are named, only
// these count, unless they share counters with others. A request for all devices is
// interested in every pool that is not complete, because it has to wait for it. If
// the context ends first, or its budget, the answer is true.
func (t *Task) Interested(ctx context.Context, pool *inventory.NodePool, devices ...string) bool {
	return (*task.Task)(t).Interested(ctx, pool, devices...)
}

// Classes yields the names of the device classes that the task refers to.
func (t *Task) Classes() iter.Seq[string] { return (*task.Task)(t).Classes() }

// Site is a node view, where devices are looked for: a node, the pools that it sees in the
// order in which they are tried, and what of them is used. With an Objective it is also what
// plans are chosen by.
type Site = search.NodeView

// ClassMissing is what Err wraps if a device class does not exist.
type ClassMissing = task.ClassMissing

// ErrInterrupted marks the error of a search whose context ended.
var ErrInterrupted = search.ErrInterrupted

// DeviceError says that a request cannot be judged because of what one device is like. Errors
// of selectors are of type selector.Error instead.
type DeviceError = search.DeviceError
