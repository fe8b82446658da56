package write

import (
	"context"
	"errors"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Create makes a claim on behalf of a pod (KEP-5004) and returns it as the server has it. The claim
// must have a full name, not only a prefix: then a second request after one with unknown outcome,
// also by another process, does not make a second claim. Its UID and resourceVersion are ignored.
//
// If a claim of that name already exists, Create returns it without an error: it may be from an
// earlier attempt, or from another program. The caller must check.
//
// ErrOutcomeUnknown says that the claim may exist, now or later; otherwise the error is the
// server's.
func (w *Writer) Create(ctx context.Context, claim *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	if claim == nil || claim.Namespace == "" || claim.Name == "" {
		return nil, errors.New("create claim: asked to create a claim without namespace or name; this is a bug in the caller")
	}
	op := &operation{claim: claim, asked: "create it"}
	claim = claim.DeepCopy()
	claim.UID, claim.ResourceVersion, claim.Status = "", "", resourceapi.ResourceClaimStatus{}
	failures := failureLog{op: op}
	for {
		if err := w.permitted(ctx, &failures); err != nil {
			return nil, err
		}
		created, err := w.createOrGet(ctx, claim)
		if err == nil {
			return created, nil
		}
		// While it is not known whether the claim exists, it has no version.
		if kind := failures.addWrite(err, "none"); kind == final {
			return nil, failures.wrap(fmt.Errorf("claim %s: asked to create it but the server refused that: %w", op.key(), err))
		}
		if err := w.pause(ctx, &failures); err != nil {
			return nil, err
		}
	}
}

// createOrGet sends one request to create the claim, and reads it if it exists.
func (w *Writer) createOrGet(ctx context.Context, claim *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	created, err := w.client.ResourceClaims(claim.Namespace).Create(ctx, claim, metav1.CreateOptions{FieldManager: FieldManager})
	if !apierrors.IsAlreadyExists(err) {
		return created, err
	}
	existing, err := w.client.ResourceClaims(claim.Namespace).Get(ctx, claim.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, apierrors.NewConflict(resourceapi.Resource("resourceclaims"), claim.Name,
			errors.New("it was there a moment ago and is gone"))
	}
	return existing, err
}

// Find reads a claim by name from the server. It returns nil if there is none.
//
// It continues for at most UndoTimeout if ctx is cancelled, because it serves to undo Create.
func (w *Writer) Find(ctx context.Context, namespace, name string) (*resourceapi.ResourceClaim, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), UndoTimeout)
	defer cancel()
	claim, err := w.client.ResourceClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find out whether claim %s/%s exists: %w", namespace, name, err)
	}
	return claim, nil
}
