package integration

import (
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// livePod reads a pod from the API server.
func (s *space) livePod(name string) *corev1.Pod {
	s.t.Helper()
	pod, err := cluster.client.CoreV1().Pods(s.name).Get(s.t.Context(), name, metav1.GetOptions{})
	require.NoError(s.t, err)
	return pod
}

// liveClaim reads a claim from the API server.
func (s *space) liveClaim(name string) *resourceapi.ResourceClaim {
	s.t.Helper()
	claim, err := cluster.client.ResourceV1().ResourceClaims(s.name).Get(s.t.Context(), name, metav1.GetOptions{})
	require.NoError(s.t, err)
	return claim
}

// claims returns the claims of a pod that is known to run, in the order of its spec.
func (s *space) claims(pod string) []*resourceapi.ResourceClaim {
	s.t.Helper()
	found, err := knownPod(s.name, pod)
	require.NoError(s.t, err)
	claims, err := claimsOf(found)
	require.NoError(s.t, err)
	return claims
}

// results are the allocation results of all claims of a pod, in order.
func (s *space) results(pod string) []resourceapi.DeviceRequestAllocationResult {
	s.t.Helper()
	var results []resourceapi.DeviceRequestAllocationResult
	for _, claim := range s.claims(pod) {
		if claim.Status.Allocation != nil {
			results = append(results, claim.Status.Allocation.Devices.Results...)
		}
	}
	return results
}
