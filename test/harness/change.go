package harness

import (
	"context"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
