package harness

import (
	"context"
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// UpdateClaimStatus changes the status of a claim as administrator.
func (s *Space) UpdateClaimStatus(name string, change func(*resourceapi.ResourceClaim)) {
	s.T.Helper()
	s.Eventually("update the status of claim "+name, func(ctx context.Context) error {
		claims := s.Cluster.Client.ResourceV1().ResourceClaims(s.Name)
		claim, err := claims.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(claim)
		_, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
		return err
	})
}

// Protect gives a claim the finalizer that allocated claims need.
func (s *Space) Protect(name string) {
	s.T.Helper()
	s.Eventually("add the finalizer to claim "+name, func(ctx context.Context) error {
		claims := s.Cluster.Client.ResourceV1().ResourceClaims(s.Name)
		claim, err := claims.Get(ctx, name, metav1.GetOptions{})
		if err != nil || slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
			return err
		}
		claim.Finalizers = append(claim.Finalizers, resourceapi.Finalizer)
		_, err = claims.Update(ctx, claim, metav1.UpdateOptions{})
		return err
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
	s.Eventually("label node "+s.Node(i), func(ctx context.Context) error {
		node, err := s.Cluster.Client.CoreV1().Nodes().Get(ctx, s.Node(i), metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Labels[key] = value
		_, err = s.Cluster.Client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
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
