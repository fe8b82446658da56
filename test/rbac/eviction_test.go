package rbac

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// evictedPod is the later one of two pods on one device. Somebody else has allocated
// both claims and bound both pods.
func evictedPod(t *testing.T, e *environment, name string) func(context.Context) error {
	for _, pod := range []string{name + "-first", name + "-second"} {
		e.createPod(t, pod, func(p *corev1.Pod) {
			p.Spec.NodeName, p.Spec.NodeSelector = name, nil
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: &pod}}
		})
		e.createAllocated(t, pod, name)
	}
	return func(ctx context.Context) error {
		_, err := e.client.CoreV1().Pods(namespace).Get(ctx, name+"-second", metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("pod %s-second is still there", name)
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
		_, err = e.client.CoreV1().Pods(namespace).Get(ctx, name+"-first", metav1.GetOptions{})
		return err
	}
}

// createAllocated makes the claim of a pod, with a device of a pool that nobody publishes.
func (e *environment) createAllocated(t *testing.T, name, pool string) {
	t.Helper()
	claims := e.client.ResourceV1().ResourceClaims(namespace)
	claim := builder.Unsaved(namespace, builder.Claim(name, builder.Request("device", deviceClass)).Allocated(pool, "device"))
	_, err := claims.Create(t.Context(), claim, metav1.CreateOptions{})
	require.NoError(t, err)
	pod, err := e.client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	harness.UpdateStatus(t, claims, name, func(stored *resourceapi.ResourceClaim) {
		stored.Status = claim.Status
		stored.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: pod.UID}}
	})
}
