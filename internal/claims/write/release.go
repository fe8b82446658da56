package write

import (
	"context"
	"errors"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Release undoes Bind when the allocation has turned out to conflict with an earlier one. The
// consumer that is not bound gives up its reservation of the allocation that the given claim shows. If
// status.reservedFor has no other consumer, the same write removes the allocation and
// status.devices: the devices are never held without a consumer. With other consumers left, the
// last one to call Release clears the allocation.
//
// If the claim has another allocation than the given claim shows, nothing is changed, not even the
// reservation: that allocation was not judged, and its author may rely on it.
//
// If the claim is not allocated (any more), the finalizer is removed, for the same reason as in
// Unreserve: once Release has returned a claim without allocation, no status update of an earlier
// Bind can take effect, and the devices can safely be allocated to others. After a Release without
// error, Unreserve is not needed.
//
// There is no error when there is nothing to release, or when the claim is gone or was replaced by
// another object of that name; in the last two cases, the returned claim is nil. ErrOutcomeUnknown
// says that the claim may or may not still be allocated and reserved; otherwise the error is the
// server's.
//
// Like Unreserve, Release continues when ctx is cancelled, for at most UndoTimeout in total. The
// consumers in the given claim are ignored. Release costs two writes if the copy is up to date and
// the claim has no other consumer, and one if it has.
func (w *Writer) Release(ctx context.Context, claim *resourceapi.ResourceClaim, unbound Unbound) (*resourceapi.ResourceClaim, error) {
	if claim == nil {
		return nil, errors.New("release claim: asked to release no claim at all; this is a bug in the caller")
	}
	g := returning{writer: w, judged: claim.Status.Allocation, consumer: unbound.consumer}
	op := &operation{
		claim:    claim,
		asked:    fmt.Sprintf("release %s (reserved for UID %s)", describeAllocation(g.judged), unbound.consumer),
		decide:   g.decide,
		evidence: []Unbound{unbound},
	}
	if g.judged == nil {
		return nil, fmt.Errorf("claim %s: asked to %s but an allocation has to be given; this is a bug in the caller", op.key(), op.asked)
	}
	return w.undo(ctx, op)
}

// returning holds the arguments of Release.
type returning struct {
	writer *Writer
	// judged is the allocation that was found to conflict, never nil.
	judged   *resourceapi.AllocationResult
	consumer types.UID
}

// decide implements operation.decide for Release.
func (g *returning) decide(current *resourceapi.ResourceClaim) (write, *refusal) {
	switch {
	case current.Status.Allocation == nil && IsReservedFor(current, g.consumer):
		// The API server does not permit this state, but handle it like Unreserve does.
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
