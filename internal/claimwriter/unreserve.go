package claimwriter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// UndoTimeout is how long Unreserve tries, whatever happens to the context of its
// caller.
const UndoTimeout = 15 * time.Second

// Unreserve undoes Bind for one consumer: it removes the consumer with that UID from
// status.reservedFor. All other consumers and the allocation stay: without consumers,
// the claim is free to be used by the next attempt or to be deallocated with Deallocate.
//
// From a claim that is not allocated it removes the finalizer, if it is there. Besides
// tidying up, this makes sure that a status update of a Bind whose outcome is unknown
// cannot take effect later (that update is based on a version with the finalizer). So
// once Unreserve has returned a claim without allocation, the devices that Bind was to
// store in it can safely be given to others.
//
// There is no error when the goal is reached without it: when the consumer is not
// there, and when the claim is gone or was replaced by another object of that name.
// In the last two cases, the returned claim is nil.
//
// What the given claim says about consumers does not matter. It costs one write if the
// copy is up-to-date and lists the consumer, and one read if there is nothing to do.
//
// Unreserve goes on when ctx gets cancelled, for at most UndoTimeout in total, because
// the cancellation may be the very reason for which the reservation must be undone.
// Only the values of ctx are used.
func (w *Writer) Unreserve(ctx context.Context, claim *resourceapi.ResourceClaim, consumerUID types.UID) (*resourceapi.ResourceClaim, error) {
	if claim == nil {
		return nil, errors.New("unreserve claim: asked to unreserve no claim at all; this is a bug in the caller")
	}
	return w.undo(ctx, claim, fmt.Sprintf("remove the reservation for UID %s", consumerUID), consumerUID)
}

// Settle finds out what became of a Bind whose consumer turned out to need the claim
// after all. It does what Unreserve does, but leaves all reservations as they are: once
// it has returned a claim, no status update of an earlier Bind that allocates the claim
// can take effect any more.
func (w *Writer) Settle(ctx context.Context, claim *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	if claim == nil {
		return nil, errors.New("settle claim: asked to settle no claim at all; this is a bug in the caller")
	}
	return w.undo(ctx, claim, "find out what was written", "")
}

// undo is the operation of Unreserve, and with an empty UID that of Settle.
func (w *Writer) undo(ctx context.Context, claim *resourceapi.ResourceClaim, asked string, consumerUID types.UID) (*resourceapi.ResourceClaim, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), UndoTimeout)
	defer cancel()
	op := &operation{
		claim: claim,
		asked: asked,
		decide: func(current *resourceapi.ResourceClaim) (write, *refusal) {
			switch {
			case consumerUID != "" && IsReservedFor(current, consumerUID):
				return w.removeConsumer(current, consumerUID), nil
			case current.Status.Allocation == nil && isProtected(current):
				return w.removeFinalizer(current), nil
			default:
				return nil, nil
			}
		},
	}
	return unlessGone(w.run(ctx, op))
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

// unlessGone turns "the claim is gone" into success without a claim, for
// operations whose goal is that the claim does not hold something.
func unlessGone(claim *resourceapi.ResourceClaim, err error) (*resourceapi.ResourceClaim, error) {
	if errors.Is(err, ErrDeleted) || errors.Is(err, ErrReplaced) {
		return nil, nil
	}
	return claim, err
}
