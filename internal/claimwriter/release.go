package claimwriter

import (
	"context"
	"errors"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Release undoes Bind when the allocation has turned out to be in conflict with an
// earlier one. The consumer with that UID gives up its reservation of the allocation
// which the given claim shows. If nobody else is left in status.reservedFor, the
// allocation goes in the same write, and status.devices with it: no state exists in
// which the devices are held for nobody. With others left, the last one to call
// Release clears it.
//
// Another allocation than the one that the given claim shows was not judged, and
// nothing of it is changed, the reservation included: whoever made it may rely on it.
//
// From a claim that is not allocated (any more), the finalizer is removed, for the
// reason that Unreserve has: once Release has returned a claim without allocation,
// no status update of an earlier Bind can take effect, and the devices can safely be
// given to others. After a Release without error, there is no need for Unreserve.
//
// There is no error when there is nothing to release, and when the claim is gone or
// was replaced by another object of that name; in the last two cases, the returned
// claim is nil. ErrOutcomeUnknown says that the claim may or may not still be allocated
// and reserved; otherwise the error is what the server returned.
//
// Like Unreserve, Release goes on when ctx gets cancelled, for at most UndoTimeout in
// total. What the given claim says about consumers does not matter. It costs two writes
// if the copy is up-to-date and nobody else uses the claim, and one if somebody does.
func (w *Writer) Release(ctx context.Context, claim *resourceapi.ResourceClaim, consumerUID types.UID) (*resourceapi.ResourceClaim, error) {
	if claim == nil {
		return nil, errors.New("release claim: asked to release no claim at all; this is a bug in the caller")
	}
	g := returning{writer: w, judged: claim.Status.Allocation, consumer: consumerUID}
	op := &operation{
		claim:  claim,
		asked:  fmt.Sprintf("release %s (reserved for UID %s)", describeAllocation(g.judged), consumerUID),
		decide: g.decide,
	}
	if g.judged == nil || consumerUID == "" {
		return nil, fmt.Errorf("claim %s: asked to %s but an allocation and the UID of the consumer have to be given; this is a bug in the caller", op.key(), op.asked)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), UndoTimeout)
	defer cancel()
	return unlessGone(w.run(ctx, op))
}

// returning is what Release was asked for.
type returning struct {
	writer *Writer
	// judged is the allocation that was found to be in conflict, never nil.
	judged   *resourceapi.AllocationResult
	consumer types.UID
}

// decide is the operation.decide of Release.
func (g *returning) decide(current *resourceapi.ResourceClaim) (write, *refusal) {
	switch {
	case current.Status.Allocation == nil && IsReservedFor(current, g.consumer):
		// The API server does not permit this state, but Unreserve copes with it, too.
		return g.writer.removeConsumer(current, g.consumer), nil
	case current.Status.Allocation == nil && isProtected(current):
		return g.writer.removeFinalizer(current), nil
	case current.Status.Allocation == nil || !SameAllocation(current.Status.Allocation, g.judged):
		return nil, nil
	case len(otherConsumers(current, g.consumer)) == 0:
		return g.writer.clear(current), nil
	case IsReservedFor(current, g.consumer):
		return g.writer.removeConsumer(current, g.consumer), nil
	default:
		return nil, nil
	}
}
