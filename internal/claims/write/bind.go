package write

import (
	"context"
	"errors"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
)

// FenceAnnotation is set on claims that were already reserved by an earlier attempt to schedule the
// pod. Its value has no meaning. It changes so that the claim changes, because the server does not
// store an update without changes.
const FenceAnnotation = "quartermaster-dra.github.io/fence"

// oldFenceAnnotation is the name in earlier versions. It is removed when the fence is raised.
const oldFenceAnnotation = "quartermaster/fence"

// Fence returns a value that changes with each fence that Bind raises on the claim.
func Fence(claim *resourceapi.ResourceClaim) string {
	return claim.Annotations[FenceAnnotation] + " " + claim.Annotations[oldFenceAnnotation]
}

// Bind makes sure that the claim is allocated and reserved for the consumer, and
// returns the claim as the server has it.
//
// If an allocation is given, the claim gets it unless it already has it. Without one, the claim
// must still have the allocation in claim.Status.Allocation. Bind first adds the finalizer
// resourceapi.Finalizer if it is missing. It then writes allocation and reservation together in one
// status update, so that the claim is never allocated by this call without being reserved. An
// allocation without allocationTimestamp gets the current time (KEP-5007 needs it to detect devices
// that take too long to get ready), see Options.WithoutTimestamp. An existing allocation cannot get a
// timestamp, because the server does not permit the change.
//
// Bind can be called again after any failure, also by another process. If the server already has
// the allocation and the reservation, and not from this call, Bind sets FenceAnnotation to a new
// value. So Bind never succeeds without a write of its own. Another process that died or lost its
// lease may have sent a request that would remove the reservation or the allocation; a late arrival
// of that request then has no effect (docs/design/commit-protocol.md). The reservation exists all the
// time: the pod may be bound without the caller knowing. The pods of a group share one reservation,
// so a write that this Writer made for one of them also serves the others.
//
// The error is one of ErrDeleted, ErrReplaced, ErrAllocatedElsewhere, ErrDeallocated and
// ErrConsumerLimit if the claim does not permit it; ErrConsumerGone if the consumer is a PodGroup that the server does not have; ErrNotStored if the server does not store the
// allocation unchanged, in which case Bind has rolled it back (unless the error says that it could
// not); ErrOutcomeUnknown if it may or may not have been written; and the server's error otherwise.
// After any error the caller should call Unreserve unless it knows that nothing was written.
//
// The context is that of the binding cycle: Bind starts no further request once it is done.
func (w *Writer) Bind(ctx context.Context, claim *resourceapi.ResourceClaim, allocation *resourceapi.AllocationResult, consumer resourceapi.ResourceClaimConsumerReference) (*resourceapi.ResourceClaim, error) {
	if claim == nil {
		return nil, errors.New("bind claim: asked to bind no claim at all; this is a bug in the caller")
	}
	b := binding{writer: w, seen: claim.Status.Allocation, allocation: allocation, consumer: consumer}
	op := &operation{claim: claim, asked: b.describe(), decide: b.decide, confirm: b.confirm, allocation: allocation, binds: true}
	if consumer.Resource == "" || consumer.Name == "" || consumer.UID == "" {
		return nil, fmt.Errorf("claim %s: asked to %s but resource and name and UID of the consumer have to be set; this is a bug in the caller", op.key(), op.asked)
	}
	bound, err := w.run(ctx, op)
	return bound, w.rollBack(ctx, &b, err)
}

// binding holds the arguments and the state of Bind.
type binding struct {
	writer *Writer
	// seen is the allocation in the caller's copy of the claim.
	seen *resourceapi.AllocationResult
	// allocation is the allocation to store, nil to use the existing one.
	allocation *resourceapi.AllocationResult
	consumer   resourceapi.ResourceClaimConsumerReference
	// wrote is set once this call has made a write, or may have: requests based on an older state
	// fail from then on.
	wrote bool
	// fence is the value that this call tried to set FenceAnnotation to, "" if it did not try.
	fence string
	// sent is set once this call has tried to write the allocation.
	sent bool
	// partial is the claim if the server has not stored all of the allocation.
	partial *resourceapi.ResourceClaim
}

func (b *binding) describe() string {
	if b.allocation != nil {
		return fmt.Sprintf("store %s and reserve it for %s", describeAllocation(b.allocation), describeConsumer(b.consumer))
	}
	return fmt.Sprintf("reserve %s for %s", describeAllocation(b.seen), describeConsumer(b.consumer))
}

// decide implements operation.decide for Bind.
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
		return nil, nil
	case done && (current.DeletionTimestamp != nil || b.writer.groups.cover(current, b.consumer)):
		// This includes a claim that is being deleted: a deletion after a reservation waits for the
		// reservation to end.
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

// confirm implements operation.confirm for Bind: a write for a PodGroup serves its other pods once the server is known to have the group.
func (b *binding) confirm(ctx context.Context, op *operation, claim *resourceapi.ResourceClaim) error {
	if !b.wrote && b.fence == "" || !dra.IsPodGroup(b.consumer) {
		return nil
	}
	if err := b.writer.checkGroupExists(ctx, op, b.consumer); err != nil {
		return err
	}
	b.writer.groups.note(claim, b.consumer)
	return nil
}

// noted wraps a write and sets wrote, unless the server says that the write had no effect.
func (b *binding) noted(w write) write {
	return func(ctx context.Context) (*resourceapi.ResourceClaim, error) {
		claim, err := w(ctx)
		b.wrote = b.wrote || !apierrors.IsConflict(err)
		return claim, err
	}
}

// isFenced reports whether this call has changed FenceAnnotation.
func (b *binding) isFenced(current *resourceapi.ResourceClaim) bool {
	return b.fence != "" && current.Annotations[FenceAnnotation] == b.fence
}

// raiseFence returns the write that changes only FenceAnnotation.
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

// store returns the write that adds the missing parts of the status.
func (b *binding) store(current *resourceapi.ResourceClaim, reserved bool) write {
	return func(ctx context.Context) (*resourceapi.ResourceClaim, error) {
		claim := current.DeepCopy()
		allocates := claim.Status.Allocation == nil
		if allocates {
			b.sent = true
			claim.Status.Allocation = b.allocation.DeepCopy()
			if !b.writer.WithoutTimestamp && claim.Status.Allocation.AllocationTimestamp == nil {
				now := metav1.NewTime(b.writer.clock.Now())
				claim.Status.Allocation.AllocationTimestamp = &now
			}
		}
		if !reserved {
			claim.Status.ReservedFor = append(claim.Status.ReservedFor, b.consumer)
		}
		ctx, mark := Recording(ctx)
		stored, err := b.writer.client.ResourceClaims(claim.Namespace).UpdateStatus(ctx, claim, updateOptions())
		if allocates && err == nil && b.writer.Guards != nil {
			b.writer.Guards.Stored(mark.Seen())
		}
		return stored, err
	}
}

// isProtected reports whether the claim has the finalizer that allocated claims need.
func isProtected(claim *resourceapi.ResourceClaim) bool {
	return slices.Contains(claim.Finalizers, resourceapi.Finalizer)
}
