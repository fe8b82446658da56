package negotiation

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
)

// Writer writes the consumers of claims that controllers have allocated, and leaves everything else unchanged. Each
// write is based on the server's current state, and the server refuses it if that has changed.
type Writer struct {
	// Claims returns the client for the claims of a namespace.
	Claims func(namespace string) ClaimClient
	// Asker asks the server whether a pod is bound.
	Asker write.Asker
	locks write.ClaimLocks
}

// ClaimClient is the part of a claim client that Writer uses. Fields that v1 lacks must pass through it
// (conversion.AlphaClaim, and the whole allocation).
type ClaimClient interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*resourceapi.ResourceClaim, error)
	UpdateStatus(ctx context.Context, claim *resourceapi.ResourceClaim, o metav1.UpdateOptions) (*resourceapi.ResourceClaim, error)
}

// ErrChanged means that a claim has changed since the pod's node was chosen.
var ErrChanged = errors.New("the claim has changed since the pod's node was chosen; looking for a node again")

// Reserve makes sure that the claim is reserved for the pod, and still has the allocation of the pod's attempt. It
// returns ErrChanged if the claim has changed or cannot be reserved.
func (w *Writer) Reserve(ctx context.Context, claim *Claim, pod *v1.Pod) error {
	return w.change(ctx, claim.Object, "reserve it for pod "+pod.Name, func(current *storedClaim) (bool, error) {
		consumers := current.Status.ReservedFor
		switch {
		case current.Status.Allocation == nil:
			return false, fmt.Errorf("%w: its allocation has been removed", ErrChanged)
		case current.fields.DeallocationRequested:
			return false, fmt.Errorf("%w: it is about to be deallocated", ErrChanged)
		case !current.forNodesOf(claim):
			return false, fmt.Errorf("%w: it is allocated for other nodes", ErrChanged)
		case write.IsReservedFor(current.ResourceClaim, pod.UID):
			return false, nil
		case current.DeletionTimestamp != nil:
			return false, fmt.Errorf("%w: it is being deleted", ErrChanged)
		case current.fields.Exclusive && len(consumers) > 0:
			return false, fmt.Errorf("%w: somebody else has reserved it and it cannot be shared", ErrChanged)
		case len(consumers) >= ReservedForMaxSize:
			return false, fmt.Errorf("%w: it is reserved for %d pods (the limit)", ErrChanged, len(consumers))
		}
		current.Status.ReservedFor = append(consumers, write.OfPod(pod))
		return true, nil
	})
}

// Unreserve removes the reservation for the pod that is not bound, if there is one. It continues when ctx is cancelled, for at most
// claims/write.UndoTimeout. A missing claim is no error.
func (w *Writer) Unreserve(ctx context.Context, claim *Claim, unbound write.Unbound) error {
	pod := unbound.Consumer()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), write.UndoTimeout)
	defer cancel()
	err := w.change(ctx, claim.Object, fmt.Sprintf("remove the reservation for UID %s", pod), func(current *storedClaim) (bool, error) {
		if !write.IsReservedFor(current.ResourceClaim, pod) {
			return false, nil
		}
		if err := unbound.Holds(ctx); err != nil {
			return false, err
		}
		write.RemoveConsumer(current.ResourceClaim, pod)
		return true, nil
	})
	if errors.Is(err, ErrChanged) {
		return nil
	}
	return err
}

// RequestDeallocation asks the driver to free a claim, and removes the reservation of the pod that is not bound. It does nothing if the
// claim meanwhile has other consumers or other nodes: the pod will see that. It also does nothing if wanted is false
// when the write's turn comes: a Reserve that begins later finds the claim unchanged.
func (w *Writer) RequestDeallocation(ctx context.Context, claim *Claim, unbound write.Unbound, wanted func() bool) error {
	pod := unbound.Consumer()
	err := w.change(ctx, claim.Object, "request its deallocation", func(current *storedClaim) (bool, error) {
		if !wanted() || current.Status.Allocation == nil || current.fields.DeallocationRequested ||
			!onlyFor(current.Status.ReservedFor, pod) || !current.forNodesOf(claim) {
			return false, nil
		}
		if err := unbound.Holds(ctx); err != nil {
			return false, err
		}
		write.RemoveConsumer(current.ResourceClaim, pod) // Otherwise the server refuses the request.
		current.fields.DeallocationRequested = true
		conversion.SetAlphaClaim(current.ResourceClaim, current.fields)
		return true, nil
	})
	if errors.Is(err, ErrChanged) {
		return nil
	}
	return err
}

// change reads a claim, changes it and writes its status. It returns ErrChanged if the claim is gone or was replaced,
// and otherwise the error of the function or the server.
func (w *Writer) change(ctx context.Context, claim *resourceapi.ResourceClaim, asked string, change func(*storedClaim) (bool, error)) error {
	turn, err := w.locks.Lock(ctx, claim.UID)
	if err != nil {
		return fmt.Errorf("claim %s: asked to %s but another write to the claim did not end in time: %w", klog.KObj(claim), asked, err)
	}
	defer turn.End(nil)
	client := w.Claims(claim.Namespace)
	var writeConflict error
	for range maxWriteConflicts {
		found, err := client.Get(ctx, claim.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) || err == nil && found.UID != claim.UID:
			return fmt.Errorf("claim %s: asked to %s: %w: it is gone", klog.KObj(claim), asked, ErrChanged)
		case err != nil:
			return fmt.Errorf("claim %s: asked to %s but it cannot be read: %w", klog.KObj(claim), asked, err)
		}
		current := &storedClaim{ResourceClaim: found.DeepCopy(), fields: conversion.AlphaClaimOf(found)}
		changed, err := change(current)
		if err != nil {
			return fmt.Errorf("claim %s: asked to %s: %w", klog.KObj(claim), asked, err)
		}
		if !changed {
			return nil
		}
		_, writeConflict = client.UpdateStatus(ctx, current.ResourceClaim, metav1.UpdateOptions{FieldManager: write.FieldManager})
		if writeConflict == nil {
			return nil
		}
		if !apierrors.IsConflict(writeConflict) {
			return fmt.Errorf("claim %s: asked to %s but the server did not accept that: %w", klog.KObj(claim), asked, writeConflict)
		}
	}
	return fmt.Errorf("claim %s: asked to %s but it keeps changing; trying again: %w", klog.KObj(claim), asked, writeConflict)
}

// storedClaim is a claim from the server, to be changed.
type storedClaim struct {
	*resourceapi.ResourceClaim
	fields conversion.AlphaClaim
}

// forNodesOf reports whether both are allocated for the same nodes.
func (c *storedClaim) forNodesOf(claim *Claim) bool {
	return apiequality.Semantic.DeepEqual(c.Status.Allocation.NodeSelector, claim.Object.Status.Allocation.NodeSelector)
}
