package classic

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/pkg/commit"
)

// Writer writes the consumers of claims that controllers have allocated. All else in a
// claim stays as it is, so it works on claims as the server has them. A write is decided
// on what the server has at that moment, and refused by the server if that has changed.
type Writer struct {
	// Claims returns the client for the claims of a namespace, in the version in which the
	// server has them.
	Claims func(namespace string) dynamic.ResourceInterface
	turns  turns
}

// ErrChanged says that a claim is not any more what the pod's node was chosen for.
var ErrChanged = errors.New("the claim has changed since the pod's node was chosen; looking for a node again")

// Reserve makes sure that the claim is reserved for the pod, and still allocated as it was
// when the pod was tried. The error is ErrChanged if it is not, or cannot be.
func (w *Writer) Reserve(ctx context.Context, claim *Claim, pod *v1.Pod) error {
	return w.change(ctx, claim.Object, "reserve it for pod "+pod.Name, func(current *rawClaim) (bool, error) {
		nodes := claim.Object.Status.Allocation.NodeSelector
		switch {
		case !current.allocated:
			return false, fmt.Errorf("%w: its allocation has been removed", ErrChanged)
		case current.deallocationRequested:
			return false, fmt.Errorf("%w: it is about to be deallocated", ErrChanged)
		case !apiequality.Semantic.DeepEqual(nodes, current.nodes):
			return false, fmt.Errorf("%w: it is allocated for other nodes", ErrChanged)
		case current.reservedFor(pod.UID):
			return false, nil
		case current.object.GetDeletionTimestamp() != nil:
			return false, fmt.Errorf("%w: it is being deleted", ErrChanged)
		case current.exclusive && len(current.consumers) > 0:
			return false, fmt.Errorf("%w: somebody else has reserved it, and it cannot be shared", ErrChanged)
		case len(current.consumers) >= ReservedForMaxSize:
			return false, fmt.Errorf("%w: it is reserved for %d pods, which is the limit", ErrChanged, len(current.consumers))
		}
		current.add(resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
		return true, nil
	})
}

// Unreserve removes the reservation for the pod, if there is one. It goes on when ctx is
// cancelled, for at most commit.UndoTimeout. That a claim is gone is no error.
func (w *Writer) Unreserve(ctx context.Context, claim *Claim, pod types.UID) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commit.UndoTimeout)
	defer cancel()
	err := w.change(ctx, claim.Object, fmt.Sprintf("remove the reservation for UID %s", pod), func(current *rawClaim) (bool, error) {
		if !current.reservedFor(pod) {
			return false, nil
		}
		current.remove(pod)
		return true, nil
	})
	if errors.Is(err, ErrChanged) {
		return nil
	}
	return err
}

// RequestDeallocation asks the driver to free a claim, and removes the pod's reservation.
// Nothing happens if the claim is used by others, or is allocated for other nodes, by now:
// the pod will find out. Nor if that is not wanted any more when it is this write's turn:
// a Reserve that begins later finds the claim as it was.
func (w *Writer) RequestDeallocation(ctx context.Context, claim *Claim, pod types.UID, wanted func() bool) error {
	err := w.change(ctx, claim.Object, "request its deallocation", func(current *rawClaim) (bool, error) {
		if !wanted() || !current.allocated || current.deallocationRequested || !onlyFor(current.consumers, pod) ||
			!apiequality.Semantic.DeepEqual(claim.Object.Status.Allocation.NodeSelector, current.nodes) {
			return false, nil
		}
		current.remove(pod)
		current.status["deallocationRequested"] = true
		return true, nil
	})
	if errors.Is(err, ErrChanged) {
		return nil
	}
	return err
}

// change reads a claim, changes it and writes its status. The error is ErrChanged if the
// claim is gone or has been replaced, and what the function or the server says otherwise.
func (w *Writer) change(ctx context.Context, claim *resourceapi.ResourceClaim, asked string, change func(*rawClaim) (bool, error)) error {
	done, err := w.turns.take(ctx, claim.UID)
	if err != nil {
		return fmt.Errorf("claim %s: asked to %s, but another write to the claim did not end in time: %w", klog.KObj(claim), asked, err)
	}
	defer done()
	client := w.Claims(claim.Namespace)
	var conflict error
	for range maxConflicts {
		found, err := client.Get(ctx, claim.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) || err == nil && found.GetUID() != claim.UID:
			return fmt.Errorf("claim %s: asked to %s: %w: it is gone", klog.KObj(claim), asked, ErrChanged)
		case err != nil:
			return fmt.Errorf("claim %s: asked to %s, but it cannot be read: %w", klog.KObj(claim), asked, err)
		}
		current, err := newRawClaim(found)
		if err != nil {
			return fmt.Errorf("claim %s: asked to %s: %w", klog.KObj(claim), asked, err)
		}
		changed, err := change(current)
		if err != nil {
			return fmt.Errorf("claim %s: asked to %s: %w", klog.KObj(claim), asked, err)
		}
		if !changed {
			return nil
		}
		_, conflict = client.UpdateStatus(ctx, current.object, metav1.UpdateOptions{FieldManager: commit.FieldManager})
		if conflict == nil {
			return nil
		}
		if !apierrors.IsConflict(conflict) {
			return fmt.Errorf("claim %s: asked to %s, but the server did not accept that: %w", klog.KObj(claim), asked, conflict)
		}
	}
	return fmt.Errorf("claim %s: asked to %s, but it keeps changing; trying again: %w", klog.KObj(claim), asked, conflict)
}

// rawClaim is a claim as the server has it.
type rawClaim struct {
	object *unstructured.Unstructured
	// status is that of the object.
	status map[string]any

	allocated             bool
	nodes                 *v1.NodeSelector
	exclusive             bool
	deallocationRequested bool
	consumers             []resourceapi.ResourceClaimConsumerReference
}

// rawStatus has the fields of both versions.
type rawStatus struct {
	Allocation *struct {
		AvailableOnNodes *v1.NodeSelector `json:"availableOnNodes"` // v1alpha2
		NodeSelector     *v1.NodeSelector `json:"nodeSelector"`     // v1alpha3
		Shareable        bool             `json:"shareable"`        // v1alpha2
	} `json:"allocation"`
	ReservedFor           []resourceapi.ResourceClaimConsumerReference `json:"reservedFor"`
	DeallocationRequested bool                                         `json:"deallocationRequested"`
}

func newRawClaim(object *unstructured.Unstructured) (*rawClaim, error) {
	c := &rawClaim{object: object}
	c.status, _, _ = unstructured.NestedMap(object.Object, "status")
	if c.status == nil {
		c.status = map[string]any{}
	}
	object.Object["status"] = c.status
	var status rawStatus
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(c.status, &status); err != nil {
		return nil, fmt.Errorf("its status cannot be read: %w", err)
	}
	c.consumers, c.deallocationRequested = status.ReservedFor, status.DeallocationRequested
	if allocation := status.Allocation; allocation != nil {
		c.allocated, c.nodes = true, allocation.NodeSelector
		if allocation.AvailableOnNodes != nil {
			c.nodes = allocation.AvailableOnNodes
		}
		// All claims of v1alpha3 can be shared; the field is v1alpha2's.
		c.exclusive = object.GroupVersionKind().Version == "v1alpha2" && !allocation.Shareable
	}
	return c, nil
}

func (c *rawClaim) reservedFor(pod types.UID) bool {
	for _, consumer := range c.consumers {
		if consumer.UID == pod {
			return true
		}
	}
	return false
}

func (c *rawClaim) add(consumer resourceapi.ResourceClaimConsumerReference) {
	list, _ := c.status["reservedFor"].([]any)
	c.status["reservedFor"] = append(list, map[string]any{
		"resource": consumer.Resource, "name": consumer.Name, "uid": string(consumer.UID),
	})
}

func (c *rawClaim) remove(pod types.UID) {
	list, _ := c.status["reservedFor"].([]any)
	var kept []any
	for _, entry := range list {
		if consumer, ok := entry.(map[string]any); !ok || consumer["uid"] != string(pod) {
			kept = append(kept, entry)
		}
	}
	if len(kept) == 0 {
		delete(c.status, "reservedFor")
		return
	}
	c.status["reservedFor"] = kept
}
