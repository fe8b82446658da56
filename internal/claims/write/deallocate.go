package write

import (
	"context"
	"errors"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Deallocate releases the devices of the claim: it clears status.allocation, status.reservedFor and
// status.devices in one update. It does so only while the claim has no consumers, or none but the
// one that is not bound (if there is evidence about one), and only while the allocation is the one that the given claim
// shows, because that is the one that the caller judged to be in the way.
//
// The finalizer stays: the claim is about to be allocated again. If it is not, the resource claim
// controller removes the finalizer when the claim is deleted.
//
// There is no error when the claim is not allocated (any more), or when it is gone or was replaced
// by another object of that name; in the last two cases, the returned claim is nil. Otherwise the
// error is ErrInUse, ErrAllocatedElsewhere (another allocation than the one in the given claim),
// ErrOutcomeUnknown, or the server's error.
//
// The context is that of the scheduling cycle. Giving up early does no harm: the next attempt to
// schedule the pod finds the claim unchanged.
func (w *Writer) Deallocate(ctx context.Context, claim *resourceapi.ResourceClaim, unbound Unbound) (*resourceapi.ResourceClaim, error) {
	if claim == nil {
		return nil, errors.New("deallocate claim: asked to deallocate no claim at all; this is a bug in the caller")
	}
	d := deallocation{writer: w, seen: claim.Status.Allocation}
	op := &operation{
		claim:  claim,
		asked:  fmt.Sprintf("deallocate %s", describeAllocation(claim.Status.Allocation)),
		decide: d.decide,
	}
	if unbound.consumer != "" {
		op.evidence, d.allowed = []Unbound{unbound}, []types.UID{unbound.consumer}
	}
	return unlessGone(w.run(ctx, op))
}

// deallocation holds the arguments of Deallocate.
type deallocation struct {
	writer *Writer
	// seen is the allocation in the caller's copy of the claim.
	seen    *resourceapi.AllocationResult
	allowed []types.UID
}

// decide implements operation.decide for Deallocate.
func (d *deallocation) decide(current *resourceapi.ResourceClaim) (write, *refusal) {
	if current.Status.Allocation == nil {
		return nil, nil
	}
	if used := unlessUsed(current, "it stays allocated until they have finished", d.allowed...); used != nil {
		return nil, used
	}
	if !SameAllocation(current.Status.Allocation, d.seen) {
		return nil, &refusal{
			reason: ErrAllocatedElsewhere,
			found:  describeAllocation(current.Status.Allocation),
			next:   "the pod has to be scheduled again with that allocation",
		}
	}
	return d.writer.clear(current), nil
}

// otherConsumers returns all consumers except the allowed ones. They forbid the deallocation.
func otherConsumers(claim *resourceapi.ResourceClaim, allowed ...types.UID) []resourceapi.ResourceClaimConsumerReference {
	return slices.DeleteFunc(slices.Clone(claim.Status.ReservedFor), func(consumer resourceapi.ResourceClaimConsumerReference) bool {
		return slices.Contains(allowed, consumer.UID)
	})
}

// clear returns the write that releases the devices.
func (w *Writer) clear(current *resourceapi.ResourceClaim) write {
	return func(ctx context.Context) (*resourceapi.ResourceClaim, error) {
		claim := current.DeepCopy()
		claim.Status.Allocation = nil
		claim.Status.ReservedFor = nil
		claim.Status.Devices = nil
		return w.client.ResourceClaims(claim.Namespace).UpdateStatus(ctx, claim, updateOptions())
	}
}
