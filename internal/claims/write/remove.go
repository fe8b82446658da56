package write

import (
	"context"
	"errors"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Remove deletes a claim that was made on behalf of one pod (KEP-5004) in any state, with its
// allocation and the reservation for that pod, which is not bound.
// While the claim is reserved for any other consumer, the error is ErrInUse and nothing is written.
//
// It takes two writes, and each only applies to the state that was looked at: the first removes the
// finalizer, the second deletes the claim. In between, the claim is like any other deletable claim.
// Once the claim is gone, late requests of an earlier Bind have no effect.
//
// If the claim has other finalizers, it stays, marked as deleted, until their owners remove them.
// Its devices would stay allocated for as long. So a separate write first clears the allocation and
// the reservation of such a claim. Remove returns the remaining claim, which then has no
// allocation; nil if it is gone.
//
// There is no error when the claim is gone or was replaced by another object of that name.
// ErrOutcomeUnknown says that it may still exist; otherwise the error is the server's.
//
// Like Unreserve, Remove continues when ctx is cancelled, for at most UndoTimeout.
func (w *Writer) Remove(ctx context.Context, claim *resourceapi.ResourceClaim, unbound Unbound) (*resourceapi.ResourceClaim, error) {
	if claim == nil {
		return nil, errors.New("remove claim: asked to remove no claim at all; this is a bug in the caller")
	}
	r := removal{writer: w, consumer: unbound.consumer}
	op := &operation{
		claim:    claim,
		asked:    fmt.Sprintf("delete it together with the reservation for UID %s", unbound.consumer),
		decide:   r.decide,
		deletes:  true,
		evidence: []Unbound{unbound},
	}
	left, err := w.undo(ctx, op)
	if err != nil || left == nil || left.DeletionTimestamp != nil && len(left.Finalizers) == 0 {
		return nil, err
	}
	return left, nil
}

// removal holds the arguments of Remove.
type removal struct {
	writer   *Writer
	consumer types.UID
}

// decide implements operation.decide for Remove.
func (r *removal) decide(current *resourceapi.ResourceClaim) (write, *refusal) {
	if used := unlessUsed(current, "it stays until they have finished", r.consumer); used != nil {
		return nil, used
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

// isHeldByOthers reports whether the claim has another finalizer, so that it stays when it is
// deleted.
func isHeldByOthers(claim *resourceapi.ResourceClaim) bool {
	return slices.ContainsFunc(claim.Finalizers, func(finalizer string) bool { return finalizer != resourceapi.Finalizer })
}

// delete returns the write that deletes the claim if it has not changed.
func (w *Writer) delete(current *resourceapi.ResourceClaim) write {
	return func(ctx context.Context) (*resourceapi.ResourceClaim, error) {
		err := w.client.ResourceClaims(current.Namespace).Delete(ctx, current.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &current.UID, ResourceVersion: &current.ResourceVersion},
		})
		if err != nil {
			return nil, err
		}
		// The server's answer need not contain the claim. Return the state that the claim has if
		// other finalizers remain; otherwise it is gone and the state does not matter.
		deleted := current.DeepCopy()
		now := metav1.NewTime(w.clock.Now())
		deleted.DeletionTimestamp = &now
		return deleted, nil
	}
}
