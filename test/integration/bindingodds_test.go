package integration

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// A pod with a higher priority needs the place of one that waits for its devices: that
// one is not evicted, because it is not bound yet, but stops waiting. Its devices can be
// had as well.
func TestPreemptedWhileWaiting(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "gated-victim", 1)
	s.Cluster.PriorityClass(t, s.Name, 1000)
	s.gatedSlice(0, "gpu-9")
	large := func(name string) *corev1.Pod {
		pod := s.Pod(name, builder.Uses(name))
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20")}
		return pod
	}
	s.Create(builder.Claim("victim", s.Want(1, s.Attribute(late))).Obj(), large("victim"))
	s.holds("victim", s.gatedPool(0)+"/gpu-9")
	s.announced("victim")

	s.Devices(0, builder.Device("gpu-0").Attr(late, false))
	s.Known()
	urgent := large("urgent")
	urgent.Spec.PriorityClassName = s.Name
	s.Create(builder.Claim("urgent", s.Want(1)).Obj(), urgent)
	s.RunningSoon("urgent")
	s.EventuallyFree("victim")
	s.notBound("victim")
	require.Equal(t, []string{s.Node(0) + "/gpu-0"}, s.DeviceNames("urgent"))
	s.DeletePod("urgent")
	s.holds("victim", s.gatedPool(0)+"/gpu-9")
	s.reports("victim", attached)
	s.RunningSoon("victim")
}

// Whoever allocated a claim need not have said when, and nobody can do so later. Pods
// wait for its devices all the same.
func TestAllocatedWithoutTime(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "gated-untimed", 1)
	s.gatedSlice(0, "gpu-9")
	s.Create(builder.Claim("untimed", s.Want(1)).Obj())
	s.allocateGated("untimed", "gpu-9")

	claim := s.LiveClaim("untimed")
	now := metav1.Now()
	claim.Status.Allocation.AllocationTimestamp = &now
	_, err := s.Cluster.Client.ResourceV1().ResourceClaims(s.Name).UpdateStatus(t.Context(), claim, metav1.UpdateOptions{})
	require.True(t, apierrors.IsInvalid(err), "the allocation is immutable, but the server says: %v", err)

	s.Create(s.Pod("p", builder.Uses("untimed")))
	s.announced("p")
	s.notBound("p")
	s.reports("untimed", attached)
	s.RunningSoon("p")
}

// The claim that is made for extended resources waits like others; one that failed is
// deleted, and the next attempt makes another.
func TestBindingOfExtendedResources(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "gated-extended", 1)
	s.gatedSlice(0, "gpu-9")
	s.Create(s.extendedPod("p", s.Implicit(), "1"))
	first := s.gatedClaimOf("p", "")
	s.announced("p")
	s.reports(first.Name, broken)
	second := s.gatedClaimOf("p", first.UID)
	s.notBound("p")
	s.reports(second.Name, attached)
	s.RunningSoon("p")
	require.Equal(t, second.UID, s.onlyClaim("p").UID)
}

// gatedClaimOf waits until a claim was made for the pod and allocated, which is not the
// one with the given UID.
func (s *space) gatedClaimOf(pod string, other types.UID) resourceapi.ResourceClaim {
	s.T.Helper()
	var found resourceapi.ResourceClaim
	s.Eventually("make a claim for pod "+pod, func(context.Context) error {
		for _, claim := range s.madeFor(pod) {
			if claim.UID != other && claim.Status.Allocation != nil {
				found = claim
				return nil
			}
		}
		return errors.New("there is none that is allocated")
	})
	return found
}

// allocateGated gives a claim a device of gatedSlice, without a timestamp.
func (s *space) allocateGated(claim, device string) {
	s.T.Helper()
	s.Protect(claim)
	s.UpdateClaimStatus(claim, func(c *resourceapi.ResourceClaim) {
		c.Status.Allocation = &resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{
				Request: "gpu", Driver: s.Driver, Pool: s.gatedPool(0), Device: device,
				BindingConditions: []string{attached}, BindingFailureConditions: []string{broken},
			}}},
			NodeSelector: onlyOn(s.Node(0)),
		}
	})
}
