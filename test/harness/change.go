package harness

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// objects is the part of a typed client that reads and writes objects T.
type objects[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Update(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
}

// Update changes an object, and waits for it to exist. Schedulers, controllers and kwok write the same objects, so a conflict does
// not fail a test: Update reads and changes the object again.
func Update[T any](t *testing.T, api objects[T], name string, change func(T)) {
	t.Helper()
	update(t, api, name, change, api.Update)
}

// UpdateStatus is Update for the status of an object.
func UpdateStatus[T any](t *testing.T, api interface {
	objects[T]
	UpdateStatus(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
}, name string, change func(T),
) {
	t.Helper()
	update(t, api, name, change, api.UpdateStatus)
}

func update[T any](t *testing.T, api objects[T], name string, change func(T), write func(context.Context, T, metav1.UpdateOptions) (T, error)) {
	t.Helper()
	require.NoError(t, Poll(t.Context(), Patience, func(ctx context.Context) error {
		object, err := api.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(object)
		_, err = write(ctx, object, metav1.UpdateOptions{})
		return err
	}))
}

// UpdateClaimStatus changes the status of a claim as administrator.
func (s *Space) UpdateClaimStatus(name string, change func(*resourceapi.ResourceClaim)) {
	s.T.Helper()
	UpdateStatus(s.T, s.Cluster.Client.ResourceV1().ResourceClaims(s.Name), name, change)
}

// Protect gives a claim the finalizer that allocated claims need.
func (s *Space) Protect(name string) {
	s.T.Helper()
	Update(s.T, s.Cluster.Client.ResourceV1().ResourceClaims(s.Name), name, func(claim *resourceapi.ResourceClaim) {
		if !slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
			claim.Finalizers = append(claim.Finalizers, resourceapi.Finalizer)
		}
	})
}

// Offer makes a node say that a device plugin offers an extended resource.
func (s *Space) Offer(i int, resource, quantity string) {
	s.T.Helper()
	patch := fmt.Sprintf(`{"status":{"capacity":{%[1]q:%[2]q},"allocatable":{%[1]q:%[2]q}}}`, resource, quantity)
	_, err := s.Cluster.Client.CoreV1().Nodes().Patch(s.T.Context(), s.Node(i), types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	require.NoError(s.T, err)
}

// Implicit is the extended resource that the class of the space stands for by its name (KEP-5004).
func (s *Space) Implicit() string { return resourceapi.ResourceDeviceClassPrefix + s.Name }

// LabelNode sets a label of a node.
func (s *Space) LabelNode(i int, key, value string) {
	s.T.Helper()
	Update(s.T, s.Cluster.Client.CoreV1().Nodes(), s.Node(i), func(node *corev1.Node) { node.Labels[key] = value })
}

// Gone waits until a pod does not exist any more.
func (s *Space) Gone(pod string) {
	s.T.Helper()
	s.Eventually("see pod "+pod+" go", func(context.Context) error {
		found, err := s.KnownPod(pod)
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is still there: %v (%v)", found, err)
		}
		return nil
	})
}

// ClaimGone waits until a claim does not exist any more.
func (s *Space) ClaimGone(claim string) {
	s.T.Helper()
	s.Eventually("see claim "+claim+" go", func(context.Context) error {
		found, err := s.KnownClaim(claim)
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is still there: %v (%v)", found, err)
		}
		return nil
	})
}

// EventuallyFree waits until a claim holds no devices.
func (s *Space) EventuallyFree(claim string) {
	s.T.Helper()
	s.Eventually("free the devices of claim "+claim, func(context.Context) error {
		found, err := s.KnownClaim(claim)
		if err != nil {
			return err
		}
		if found.Status.Allocation != nil {
			return fmt.Errorf("it is allocated and reserved for %v", found.Status.ReservedFor)
		}
		return nil
	})
}
