package write

import (
	"context"
	"errors"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ReleaseAbandoned deallocates a claim without consumers, like kube-controller-manager's
// resourceclaim controller: it clears status.allocation, status.reservedFor and status.devices in
// one update. gone is the evidence about the consumers, which do not use the claim any more. While the claim is reserved for any other consumer, nothing is written.
// Only the allocation that the given claim shows is cleared, because that is the one that the
// caller judged.
//
// If the claim is being deleted, the finalizer is removed afterwards, so that the claim goes away.
// Otherwise the finalizer stays, for the same reason as in Deallocate.
//
// There is no error when the claim is not allocated (any more), whichever client cleared it, or
// when it is gone or was replaced by another object of that name; in the last two cases, the
// returned claim is nil. Otherwise the error is ErrInUse, ErrAllocatedElsewhere, ErrOutcomeUnknown,
// or the server's error. cleared is set if the server has confirmed that this call removed the
// allocation, even if a later step failed.
//
// Giving up early, because ctx is done, does no harm: the controller finally does the same.
func (w *Writer) ReleaseAbandoned(ctx context.Context, claim *resourceapi.ResourceClaim, gone []Unbound) (left *resourceapi.ResourceClaim, cleared bool, err error) {
	if claim == nil {
		return nil, false, errors.New("release abandoned claim: asked to release no claim at all; this is a bug in the caller")
	}
	a := abandonment{writer: w, judged: claim.Status.Allocation, gone: consumersOf(gone)}
	op := &operation{
		claim:    claim,
		asked:    fmt.Sprintf("release %s (its %d consumers are gone)", describeAllocation(a.judged), len(gone)),
		decide:   a.decide,
		evidence: gone,
	}
	if a.judged == nil {
		return nil, false, fmt.Errorf("claim %s: asked to %s but an allocation has to be given; this is a bug in the caller", op.key(), op.asked)
	}
	left, err = unlessGone(w.run(ctx, op))
	return left, a.cleared, err
}

// consumersOf returns the consumers that evidence is about.
func consumersOf(evidence []Unbound) []types.UID {
	uids := make([]types.UID, len(evidence))
	for i, unbound := range evidence {
		uids[i] = unbound.consumer
	}
	return uids
}

// abandonment holds the arguments and the state of ReleaseAbandoned.
type abandonment struct {
	writer *Writer
	// judged is the allocation that no consumer uses any more, never nil.
	judged *resourceapi.AllocationResult
	gone   []types.UID
	// cleared is set once the server has accepted the write that removes the allocation.
	cleared bool
}

// decide implements operation.decide for ReleaseAbandoned.
func (a *abandonment) decide(current *resourceapi.ResourceClaim) (write, *refusal) {
	if used := unlessUsed(current, "it stays allocated until they have finished", a.gone...); used != nil {
		return nil, used
	}
	switch {
	case current.Status.Allocation == nil && current.DeletionTimestamp != nil && isProtected(current):
		return a.writer.removeFinalizer(current), nil
	case current.Status.Allocation == nil:
		return nil, nil
	case !SameAllocation(current.Status.Allocation, a.judged):
		return nil, &refusal{
			reason: ErrAllocatedElsewhere,
			found:  describeAllocation(current.Status.Allocation),
			next:   "that allocation stays until it is known who uses it",
		}
	default:
		return a.noted(a.writer.clear(current)), nil
	}
}

// noted wraps the write that clears the allocation, and records its success.
func (a *abandonment) noted(clears write) write {
	return func(ctx context.Context) (*resourceapi.ResourceClaim, error) {
		claim, err := clears(ctx)
		a.cleared = a.cleared || err == nil
		return claim, err
	}
}
