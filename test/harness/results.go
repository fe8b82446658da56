package harness

import (
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/checker"
)

// LivePod reads a pod from the API server.
func (s *Space) LivePod(name string) *corev1.Pod {
	s.T.Helper()
	pod, err := s.Cluster.Client.CoreV1().Pods(s.Name).Get(s.T.Context(), name, metav1.GetOptions{})
	require.NoError(s.T, err)
	return pod
}

// LiveClaim reads a claim from the API server.
func (s *Space) LiveClaim(name string) *resourceapi.ResourceClaim {
	s.T.Helper()
	claim, err := s.Cluster.Client.ResourceV1().ResourceClaims(s.Name).Get(s.T.Context(), name, metav1.GetOptions{})
	require.NoError(s.T, err)
	return claim
}

// Claims returns the claims of a pod that is known to run, in the order of its spec.
func (s *Space) Claims(pod string) []*resourceapi.ResourceClaim {
	s.T.Helper()
	found, err := s.KnownPod(pod)
	require.NoError(s.T, err)
	claims, err := s.ClaimsOf(found)
	require.NoError(s.T, err)
	return claims
}

// Results are the allocation results of all claims of a pod, in order.
func (s *Space) Results(pod string) []resourceapi.DeviceRequestAllocationResult {
	s.T.Helper()
	var results []resourceapi.DeviceRequestAllocationResult
	for _, claim := range s.Claims(pod) {
		results = append(results, checker.Results(claim)...)
	}
	return results
}
