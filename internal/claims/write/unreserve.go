package write

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// UndoTimeout limits how long Unreserve tries, independent of the context of its caller.
const UndoTimeout = 15 * time.Second

// Unreserve undoes Bind for one consumer: it removes the consumer that is not bound from
// status.reservedFor. All other consumers and the allocation stay: without consumers, the next
// attempt can use the claim, or Deallocate can clear it.
//
// If the claim is not allocated, Unreserve removes the finalizer. Besides tidying up, this makes
// sure that a status update of a Bind whose outcome is unknown cannot take effect later (that
// update is based on a version with the finalizer). So once Unreserve has returned a claim without
// allocation, the devices of that Bind can safely be allocated to others.
//
// There is no error when there is nothing to do: when the consumer is not listed, or when the claim
// is gone or was replaced by another object of that name. In the last two cases, the returned claim
// is nil.
//
// The consumers in the given claim are ignored. Unreserve costs one write if the copy is up to date
// and lists the consumer, and one read if there is nothing to do.
//
// Unreserve continues when ctx is cancelled, for at most UndoTimeout in total, because the
// cancellation may be the reason to undo the reservation. Only the values of ctx are used.
func (w *Writer) Unreserve(ctx context.Context, claim *resourceapi.ResourceClaim, unbound Unbound) (*resourceapi.ResourceClaim, error) {
	if claim == nil {
		return nil, errors.New("unreserve claim: asked to unreserve no claim at all; this is a bug in the caller")
	}
	return w.undo(ctx, &operation{
		claim:    claim,
		asked:    fmt.Sprintf("remove the reservation for UID %s", unbound.consumer),
		decide:   w.unreserve(unbound.consumer),
		evidence: []Unbound{unbound},
	})
}

// Settle finds out the outcome of a Bind whose consumer needs the claim after all. It does the same
// as Unreserve, but keeps all reservations: once it has returned a claim, no status update of an
// earlier Bind that allocates the claim can take effect any more.
func (w *Writer) Settle(ctx context.Context, claim *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	if claim == nil {
		return nil, errors.New("settle claim: asked to settle no claim at all; this is a bug in the caller")
	}
	return w.undo(ctx, &operation{claim: claim, asked: "find out what was written", decide: w.unreserve("")})
}

// undo carries out an operation, also when ctx is cancelled, for at most UndoTimeout.
func (w *Writer) undo(ctx context.Context, op *operation) (*resourceapi.ResourceClaim, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), UndoTimeout)
	defer cancel()
	return unlessGone(w.run(ctx, op))
}

// unreserve returns operation.decide for Unreserve and, with an empty UID, for Settle.
func (w *Writer) unreserve(consumerUID types.UID) func(*resourceapi.ResourceClaim) (write, *refusal) {
	return func(current *resourceapi.ResourceClaim) (write, *refusal) {
		switch {
		case consumerUID != "" && IsReservedFor(current, consumerUID):
			return w.removeConsumer(current, consumerUID), nil
		case current.Status.Allocation == nil && isProtected(current):
			return w.removeFinalizer(current), nil
		default:
			return nil, nil
		}
	}
}

// removeFinalizer returns the write that undoes addFinalizer.
func (w *Writer) removeFinalizer(current *resourceapi.ResourceClaim) write {
	return func(ctx context.Context) (*resourceapi.ResourceClaim, error) {
		claim := current.DeepCopy()
		claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(finalizer string) bool {
			return finalizer == resourceapi.Finalizer
		})
		return w.client.ResourceClaims(claim.Namespace).Update(ctx, claim, updateOptions())
	}
}

// removeConsumer returns the write that removes one consumer.
func (w *Writer) removeConsumer(current *resourceapi.ResourceClaim, uid types.UID) write {
	return func(ctx context.Context) (*resourceapi.ResourceClaim, error) {
		claim := current.DeepCopy()
		RemoveConsumer(claim, uid)
		return w.client.ResourceClaims(claim.Namespace).UpdateStatus(ctx, claim, updateOptions())
	}
}

// unlessGone turns "the claim is gone" into success without a claim, for operations whose goal is
// that the claim gives something up.
func unlessGone(claim *resourceapi.ResourceClaim, err error) (*resourceapi.ResourceClaim, error) {
	if errors.Is(err, ErrDeleted) || errors.Is(err, ErrReplaced) {
		return nil, nil
	}
	return claim, err
}

// IsReservedFor reports whether the UID is among the consumers of the claim (status.reservedFor).
func IsReservedFor(claim *resourceapi.ResourceClaim, uid types.UID) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor, func(consumer resourceapi.ResourceClaimConsumerReference) bool {
		return consumer.UID == uid
	})
}

// RemoveConsumer removes the UID from the consumers of the claim, which it changes.
func RemoveConsumer(claim *resourceapi.ResourceClaim, uid types.UID) {
	claim.Status.ReservedFor = slices.DeleteFunc(claim.Status.ReservedFor, func(consumer resourceapi.ResourceClaimConsumerReference) bool {
		return consumer.UID == uid
	})
}
