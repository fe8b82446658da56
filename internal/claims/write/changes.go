package write

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// Change describes that a Writer has stored or removed the allocation of a claim.
type Change struct {
	// Claim is the server's claim after the change. A deleted claim is in its last state.
	Claim *resourceapi.ResourceClaim
	// Allocation is the stored or removed allocation, as the server had it.
	Allocation *resourceapi.AllocationResult
	// Released is set if the allocation was removed.
	Released bool
	// Cause is the cause in the context of the operation, see Because.
	Cause Cause
}

// Cause is the reason for an operation. It is for users only and changes no behaviour.
type Cause struct {
	// Pod is the pod that the operation is for, nil if there is none.
	Pod *v1.Pod
	// Node is the node where the pod should run, "" if unknown.
	Node string
	// Why is a part of a sentence for users: "for ...", "because ...".
	Why string
}

// causeKey is the context key of the cause.
type causeKey struct{}

// Because returns a context that gives operations of a Writer a cause. A missing pod or node is
// taken from the cause in ctx.
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

// told reports a change between the states before and after a write; a claim that is gone is nil.
func (w *Writer) told(ctx context.Context, before, after *resourceapi.ResourceClaim) {
	if w.Changed == nil {
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
	w.Changed(ctx, change)
}

// allocationOf returns the allocation of an existing claim. A claim that is marked as deleted and
// has no finalizers counts as gone.
func allocationOf(claim *resourceapi.ResourceClaim) *resourceapi.AllocationResult {
	if claim == nil || claim.DeletionTimestamp != nil && len(claim.Finalizers) == 0 {
		return nil
	}
	return claim.Status.Allocation
}

// toldLate reports the change of a write whose answer was lost. current is the state that was read
// since, and err the reason if there is none. A change that another client may have made is not
// reported: the claim then has another allocation than the one sent.
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
