package claimwriter

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// Change is that a Writer has given a claim its allocation, or has taken it away.
type Change struct {
	// Claim is as the server has it afterwards. One that was deleted is as it was last.
	Claim *resourceapi.ResourceClaim
	// Allocation is the one that was stored, or that is gone. It is as the server had it.
	Allocation *resourceapi.AllocationResult
	// Released is set if it is gone.
	Released bool
	// Cause is the one that the context of the operation has, see Because.
	Cause Cause
}

// Cause is why an operation is carried out. Nothing depends on it.
type Cause struct {
	// Pod is for whose sake it is, nil if for no pod in particular.
	Pod *v1.Pod
	// Node is where that pod is to run, "" if that is not known.
	Node string
	// Why is a part of a sentence for people: "for ...", "because ...".
	Why string
}

// causeKey is where a context has its cause.
type causeKey struct{}

// Because returns a context in which operations of a Writer have a cause. What it does not say, pod or node, is as in
// the context that was given.
func Because(ctx context.Context, cause Cause) context.Context {
	outer, _ := ctx.Value(causeKey{}).(Cause)
	if cause.Pod == nil {
		cause.Pod = outer.Pod
	}
	if cause.Node == "" {
		cause.Node = outer.Node
	}
	return context.WithValue(ctx, causeKey{}, cause)
}

// WithChanges has a function called after each change of an allocation that the server has confirmed: in its answer
// to the write, or, if that got lost, in the state that was read afterwards. It must return at once. A write of
// which the operation does not find out whether it was stored (ErrOutcomeUnknown) is not told of.
func WithChanges(changed func(context.Context, Change)) Option {
	return func(w *Writer) { w.changed = changed }
}

// told tells of a change between the state that a write was based on and the one after it; nil is a claim that is gone.
func (w *Writer) told(ctx context.Context, before, after *resourceapi.ResourceClaim) {
	if w.changed == nil {
		return
	}
	had, has := allocationOf(before), allocationOf(after)
	if (had == nil) == (has == nil) {
		return
	}
	change := Change{Claim: after, Allocation: has}
	if had != nil {
		change.Allocation, change.Released = had, true
	}
	if after == nil {
		change.Claim = before
	}
	change.Cause, _ = ctx.Value(causeKey{}).(Cause)
	w.changed(ctx, change)
}

// allocationOf returns the allocation of a claim that is there: one that is marked as deleted and has no finalizer
// (any more) is not.
func allocationOf(claim *resourceapi.ResourceClaim) *resourceapi.AllocationResult {
	if claim == nil || claim.DeletionTimestamp != nil && len(claim.Finalizers) == 0 {
		return nil
	}
	return claim.Status.Allocation
}

// toldLate is told for a write whose answer got lost: current is the state that was read since, and err why there is
// none. What others can have done counts as theirs: the claim has another allocation than the one that was sent.
func (w *Writer) toldLate(ctx context.Context, op *operation, before, current *resourceapi.ResourceClaim, err error) {
	switch {
	case errors.Is(err, ErrDeleted) || errors.Is(err, ErrReplaced):
		if op.deletes {
			w.told(ctx, before, nil)
		}
	case err != nil:
	case allocationOf(current) == nil || op.allocation != nil && SameAllocation(current.Status.Allocation, op.allocation):
		w.told(ctx, before, current)
	}
}
