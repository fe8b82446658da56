package integration

import (
	"context"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// updateClaimStatus changes the status of a claim as administrator.
func (s *space) updateClaimStatus(name string, change func(*resourceapi.ResourceClaim)) {
	s.t.Helper()
	s.eventually("update the status of claim "+name, func(ctx context.Context) error {
		claims := cluster.client.ResourceV1().ResourceClaims(s.name)
		claim, err := claims.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(claim)
		_, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
		return err
	})
}

// protect gives a claim the finalizer that allocated claims need.
func (s *space) protect(name string) {
	s.t.Helper()
	s.eventually("add the finalizer to claim "+name, func(ctx context.Context) error {
		claims := cluster.client.ResourceV1().ResourceClaims(s.name)
		claim, err := claims.Get(ctx, name, metav1.GetOptions{})
		if err != nil || slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
			return err
		}
		claim.Finalizers = append(claim.Finalizers, resourceapi.Finalizer)
		_, err = claims.Update(ctx, claim, metav1.UpdateOptions{})
		return err
	})
}

// labelNode sets a label of a node.
func (s *space) labelNode(i int, key, value string) {
	s.t.Helper()
	s.eventually("label node "+s.node(i), func(ctx context.Context) error {
		node, err := cluster.client.CoreV1().Nodes().Get(ctx, s.node(i), metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Labels[key] = value
		_, err = cluster.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

// gone waits until a pod does not exist any more.
func (s *space) gone(pod string) {
	s.t.Helper()
	s.eventually("see pod "+pod+" go", func(context.Context) error {
		found, err := knownPod(s.name, pod)
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is still there: %v (%v)", found, err)
		}
		return nil
	})
}

// eventuallyFree waits until a claim holds no devices.
func (s *space) eventuallyFree(claim string) {
	s.t.Helper()
	s.eventually("free the devices of claim "+claim, func(context.Context) error {
		found, err := knownClaim(s.name, claim)
		if err != nil {
			return err
		}
		if found.Status.Allocation != nil {
			return fmt.Errorf("it is allocated and reserved for %v", found.Status.ReservedFor)
		}
		return nil
	})
}
