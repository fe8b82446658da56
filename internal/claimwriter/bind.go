package claimwriter

import (
	"context"
	"errors"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/quartermaster-dra/quartermaster/internal/guard/marks"
)

// FenceAnnotation is on claims of which a pod was tried again after an attempt that had
// reserved the claim already. Its value has no meaning. It changes so that the claim
// does: the server does not store an update that changes nothing.
const FenceAnnotation = "quartermaster-dra.github.io/fence"

// oldFenceAnnotation is what versions before called it. It goes when the fence is raised.
const oldFenceAnnotation = "quartermaster/fence"

// Fence returns what changes with each write of such a claim.
func Fence(claim *resourceapi.ResourceClaim) string {
	return claim.Annotations[FenceAnnotation] + " " + claim.Annotations[oldFenceAnnotation]
}

// Bind makes sure that the claim is allocated and reserved for the consumer, and
// returns the claim as the server has it.
//
// With an allocation given, the claim gets it unless it has it already. Without
// one, the claim must still have the allocation which claim.Status.Allocation
// shows. The finalizer resourceapi.Finalizer is added first if it is missing, then
// allocation and reservation are written together in one status update, so that
// no state exists in which the claim is allocated by this call but not reserved.
// An allocation without allocationTimestamp gets the current time (KEP-5007 needs
// it to detect devices that take too long to get ready), see WithTimestamp. One that is
// in the claim already cannot get it any more: the server does not permit a change.
//
// It can be called again after any failure, also by another process. If the server
// already has all of that, and not from this call, then FenceAnnotation is set to
// something new. So Bind does not succeed without a write of its own, and a request of
// another process that died or lost its lease before, which may still arrive and take
// the reservation or the allocation away, does not apply any more
// (docs/commit-protocol.md). The reservation is there all the time: the pod may be bound
// without the caller knowing. For a group of pods, which have one reservation between them,
// a write that this Writer has made for one of them is as good for the others.
//
// The error is one of ErrDeleted, ErrReplaced, ErrAllocatedElsewhere,
// ErrDeallocated and ErrConsumerLimit if the claim does not permit it; ErrNotStored if
// the server does not store the allocation as it is, in which case Bind has given it
// back (unless the error says that it could not); ErrOutcomeUnknown if it may or may not have been written; and the server's
// error otherwise. After any error the caller should call Unreserve unless it
// knows that nothing was written.
//
// The context is that of the binding cycle: Bind does not start another request
// once it is done.
func (w *Writer) Bind(ctx context.Context, claim *resourceapi.ResourceClaim, allocation *resourceapi.AllocationResult, consumer resourceapi.ResourceClaimConsumerReference) (*resourceapi.ResourceClaim, error) {
	if claim == nil {
		return nil, errors.New("bind claim: asked to bind no claim at all; this is a bug in the caller")
	}
	b := binding{writer: w, seen: claim.Status.Allocation, allocation: allocation, consumer: consumer}
	op := &operation{claim: claim, asked: b.describe(), decide: b.decide, allocation: allocation, binds: true}
	if consumer.Resource == "" || consumer.Name == "" || consumer.UID == "" {
		return nil, fmt.Errorf("claim %s: asked to %s but resource and name and UID of the consumer have to be set; this is a bug in the caller", op.key(), op.asked)
	}
	bound, err := w.run(ctx, op)
	return bound, w.rollBack(ctx, &b, err)
}

// binding is what Bind was asked for.
type binding struct {
	writer *Writer
	// seen is the allocation in the caller's copy of the claim.
	seen *resourceapi.AllocationResult
	// allocation is the one to store, nil if the existing one is to be used.
	allocation *resourceapi.AllocationResult
	consumer   resourceapi.ResourceClaimConsumerReference
	// wrote is set once this call has made a write, or may have: requests that are based
	// on an older state fail from then on.
	wrote bool
	// fence is the value that this call has tried to give FenceAnnotation, "" before.
	fence string
	// sent is set once this call has tried to write the allocation.
	sent bool
	// partial is the claim if the allocation was only partially persisted: the server has not stored all that was sent.
	partial *resourceapi.ResourceClaim
}

func (b *binding) describe() string {
	if b.allocation != nil {
		return fmt.Sprintf("store %s and reserve it for %s", describeAllocation(b.allocation), describeConsumer(b.consumer))
	}
	return fmt.Sprintf("reserve %s for %s", describeAllocation(b.seen), describeConsumer(b.consumer))
}

// decide is the operation.decide of Bind.
func (b *binding) decide(current *resourceapi.ResourceClaim) (write, *refusal) {
	if refused := b.checkAllocation(current.Status.Allocation); refused != nil {
		if b.isPartial(current) {
			refused = b.refusePartial(current)
		}
		return nil, refused
	}
	reserved := IsReservedFor(current, b.consumer.UID)
	protected := isProtected(current)
	done := current.Status.Allocation != nil && reserved && protected
	switch {
	case done && (b.wrote || b.isFenced(current)):
		b.writer.groups.note(current, b.consumer)
		return nil, nil
	case done && (current.DeletionTimestamp != nil || b.writer.groups.cover(current, b.consumer)):
		// Also if the claim is being deleted: a deletion that comes after a
		// reservation waits for its end.
		return nil, nil
	case done:
		return b.raiseFence(current), nil
	case current.DeletionTimestamp != nil:
		return nil, &refusal{
			reason: ErrDeleted,
			found:  "that it is being deleted",
			next:   "wait until it is gone and create it again",
		}
	case !reserved && len(current.Status.ReservedFor) >= b.writer.consumerLimit(current):
		return nil, &refusal{
			reason: ErrConsumerLimit,
			found:  fmt.Sprintf("%d consumers (the limit is %d)", len(current.Status.ReservedFor), b.writer.consumerLimit(current)),
			next:   "it can be used again when one of them has finished",
		}
	case !protected:
		return b.noted(b.writer.addFinalizer(current)), nil
	default:
		return b.noted(b.store(current, reserved)), nil
	}
}

// noted is the write, remembered unless the server says that it did not take effect.
func (b *binding) noted(w write) write {
	return func(ctx context.Context) (*resourceapi.ResourceClaim, error) {
		claim, err := w(ctx)
		b.wrote = b.wrote || !apierrors.IsConflict(err)
		return claim, err
	}
}

// isFenced says whether this call has changed FenceAnnotation.
func (b *binding) isFenced(current *resourceapi.ResourceClaim) bool {
	return b.fence != "" && current.Annotations[FenceAnnotation] == b.fence
}

// raiseFence returns the write that changes nothing but FenceAnnotation.
func (b *binding) raiseFence(current *resourceapi.ResourceClaim) write {
	return func(ctx context.Context) (*resourceapi.ResourceClaim, error) {
		b.fence = string(uuid.NewUUID())
		claim := current.DeepCopy()
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, FenceAnnotation, b.fence)
		delete(claim.Annotations, oldFenceAnnotation)
		return b.writer.client.ResourceClaims(claim.Namespace).Update(ctx, claim, updateOptions())
	}
}

// checkAllocation compares the allocation in the claim with the expected one.
func (b *binding) checkAllocation(current *resourceapi.AllocationResult) *refusal {
	if b.allocation != nil {
		if current == nil || SameAllocation(current, b.allocation) {
			return nil
		}
		return &refusal{
			reason: ErrAllocatedElsewhere,
			found:  describeAllocation(current),
			next:   "the pod has to be scheduled again with that allocation",
		}
	}
	if current != nil && SameAllocation(current, b.seen) {
		return nil
	}
	return &refusal{
		reason: ErrDeallocated,
		found:  describeAllocation(current),
		next:   "the pod has to be scheduled again",
	}
}

// addFinalizer returns the write that protects the claim against removal while it
// is allocated. The status cannot be changed in the same request.
func (w *Writer) addFinalizer(current *resourceapi.ResourceClaim) write {
	return func(ctx context.Context) (*resourceapi.ResourceClaim, error) {
		claim := current.DeepCopy()
		claim.Finalizers = append(claim.Finalizers, resourceapi.Finalizer)
		return w.client.ResourceClaims(claim.Namespace).Update(ctx, claim, updateOptions())
	}
}

// store returns the write that adds what is missing in the status.
func (b *binding) store(current *resourceapi.ResourceClaim, reserved bool) write {
	return func(ctx context.Context) (*resourceapi.ResourceClaim, error) {
		claim := current.DeepCopy()
		allocates := claim.Status.Allocation == nil
		if allocates {
			b.sent = true
			claim.Status.Allocation = b.allocation.DeepCopy()
			if b.writer.timestamp && claim.Status.Allocation.AllocationTimestamp == nil {
				now := metav1.NewTime(b.writer.clock.Now())
				claim.Status.Allocation.AllocationTimestamp = &now
			}
		}
		if !reserved {
			claim.Status.ReservedFor = append(claim.Status.ReservedFor, b.consumer)
		}
		ctx, mark := marks.Recording(ctx)
		stored, err := b.writer.client.ResourceClaims(claim.Namespace).UpdateStatus(ctx, claim, updateOptions())
		if allocates && err == nil {
			b.writer.allocated(mark.Seen())
		}
		return stored, err
	}
}

// isProtected says whether the claim has the finalizer that allocated claims need.
func isProtected(claim *resourceapi.ResourceClaim) bool {
	return slices.Contains(claim.Finalizers, resourceapi.Finalizer)
}
