package claimwriter

import (
	"context"
	"errors"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Remove deletes a claim that was made on behalf of one pod (KEP-5004), whatever its
// state: with its allocation, and with the reservation for that pod. The caller must
// know that the pod is not bound. While the claim is reserved for anybody else, the error
// is ErrInUse and nothing is written.
//
// It takes two writes, of which each only applies to the state that was looked at: the
// finalizer goes, then the claim. In between it is as any other claim that can be
// deleted. With the claim, all late requests of an earlier Bind come to nothing.
//
// Finalizers of others stay, and the claim with them until these are removed: it is marked
// as deleted. Its devices would stay with it for as long as that takes, so a claim with such
// finalizers first loses its allocation and the reservation, in a write of their own. Remove
// returns what is left of the claim, which has no allocation then; nil if nothing is.
//
// There is no error when the claim is gone or was replaced by another object of that
// name. ErrOutcomeUnknown says that it may still be there; otherwise the error is what
// the server returned.
//
// Like Unreserve, Remove goes on when ctx gets cancelled, for at most UndoTimeout.
func (w *Writer) Remove(ctx context.Context, claim *resourceapi.ResourceClaim, consumerUID types.UID) (*resourceapi.ResourceClaim, error) {
	if claim == nil {
		return nil, errors.New("remove claim: asked to remove no claim at all; this is a bug in the caller")
	}
	r := removal{writer: w, consumer: consumerUID}
	op := &operation{
		claim:   claim,
		asked:   fmt.Sprintf("delete it together with the reservation for UID %s", consumerUID),
		decide:  r.decide,
		deletes: true,
	}
	if consumerUID == "" {
		return nil, fmt.Errorf("claim %s: asked to %s but the UID of the consumer has to be given; this is a bug in the caller", op.key(), op.asked)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), UndoTimeout)
	defer cancel()
	left, err := unlessGone(w.run(ctx, op))
	if err != nil || left == nil || left.DeletionTimestamp != nil && len(left.Finalizers) == 0 {
		return nil, err
	}
	return left, nil
}

// removal is what Remove was asked for.
type removal struct {
	writer   *Writer
	consumer types.UID
}

// decide is the operation.decide of Remove.
func (r *removal) decide(current *resourceapi.ResourceClaim) (write, *refusal) {
	if others := otherConsumers(current, r.consumer); len(others) > 0 {
		return nil, &refusal{
			reason: ErrInUse,
			found:  fmt.Sprintf("that it is reserved for %s", describeConsumers(others)),
			next:   "it stays until they have finished",
		}
	}
	switch {
	case current.Status.Allocation != nil && isHeldByOthers(current):
		return r.writer.clear(current), nil
	case isProtected(current):
		return r.writer.removeFinalizer(current), nil
	case current.DeletionTimestamp != nil:
		return nil, nil
	default:
		return r.writer.delete(current), nil
	}
}

// isHeldByOthers says whether somebody else has a finalizer on the claim, so that it stays
// when it is deleted.
func isHeldByOthers(claim *resourceapi.ResourceClaim) bool {
	return slices.ContainsFunc(claim.Finalizers, func(finalizer string) bool { return finalizer != resourceapi.Finalizer })
}

// delete returns the write that deletes the claim, provided that it has not changed.
func (w *Writer) delete(current *resourceapi.ResourceClaim) write {
	return func(ctx context.Context) (*resourceapi.ResourceClaim, error) {
		err := w.client.ResourceClaims(current.Namespace).Delete(ctx, current.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &current.UID, ResourceVersion: &current.ResourceVersion},
		})
		if err != nil {
			return nil, err
		}
		// The answer need not tell. If finalizers of others are left, this is what the
		// claim looks like; otherwise there is nothing left to look like anything.
		deleted := current.DeepCopy()
		now := metav1.NewTime(w.clock.Now())
		deleted.DeletionTimestamp = &now
		return deleted, nil
	}
}
