package integration

import (
	"context"
	"fmt"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// explicit is the one that namedClass stands for.
func (s *space) explicit() string { return "example.com/" + s.Name }

// namedClass is another class with the devices of the space. It says which extended
// resource it stands for.
func (s *space) namedClass() *resourceapi.DeviceClass {
	class := builder.Class(s.Name+"-named", builder.OfDriver(s.Driver))
	class.Spec.ExtendedResourceName = ptr.To(s.explicit())
	return class
}

// asking makes a container that asks for extended resources: name, quantity and so on.
func asking(name string, resources ...string) corev1.Container {
	list := corev1.ResourceList{}
	for i := 0; i < len(resources); i += 2 {
		list[corev1.ResourceName(resources[i])] = resource.MustParse(resources[i+1])
	}
	return corev1.Container{
		Name: name, Image: "registry.k8s.io/pause:3.10",
		Resources: corev1.ResourceRequirements{Requests: list, Limits: list},
	}
}

// extendedPod makes a pod whose only container asks for extended resources.
func (s *space) extendedPod(name string, resources ...string) *corev1.Pod {
	pod := s.Pod(name, nil)
	pod.Spec.Containers = []corev1.Container{asking("main", resources...)}
	return pod
}

// madeFor returns the claims on the server that were made for a pod's extended resources.
func (s *space) madeFor(pod string) []resourceapi.ResourceClaim {
	s.T.Helper()
	list, err := cluster.Client.ResourceV1().ResourceClaims(s.Name).List(s.T.Context(), metav1.ListOptions{})
	require.NoError(s.T, err)
	var claims []resourceapi.ResourceClaim
	for _, claim := range list.Items {
		owner := metav1.GetControllerOf(&claim)
		if claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true" && owner != nil && owner.Name == pod {
			claims = append(claims, claim)
		}
	}
	return claims
}

// onlyClaim returns the claim that was made for a pod, of which there has to be one. The
// status of the pod has to name it.
func (s *space) onlyClaim(pod string) resourceapi.ResourceClaim {
	s.T.Helper()
	claims := s.madeFor(pod)
	require.Len(s.T, claims, 1, "claims for extended resources of pod %s", pod)
	status := s.LivePod(pod).Status.ExtendedResourceClaimStatus
	require.NotNil(s.T, status, "status of pod %s", pod)
	require.Equal(s.T, claims[0].Name, status.ResourceClaimName)
	return claims[0]
}

// mappings are "container resource: request" of a pod's status.
func (s *space) mappings(pod string) []string {
	s.T.Helper()
	var result []string
	for _, mapping := range s.LivePod(pod).Status.ExtendedResourceClaimStatus.RequestMappings {
		result = append(result, fmt.Sprintf("%s %s: %s", mapping.ContainerName, mapping.ResourceName, mapping.RequestName))
	}
	return result
}

// devicesByRequest counts the devices of a pod.
func (s *space) devicesByRequest(pod string) map[string]int {
	s.T.Helper()
	count := map[string]int{}
	for _, result := range s.Results(pod) {
		count[result.Request]++
	}
	return count
}

// nothingMadeFor waits until no claim is left that was made for a pod.
func (s *space) nothingMadeFor(pod string) {
	s.T.Helper()
	s.Eventually("see the claims of pod "+pod+" go", func(context.Context) error {
		if claims := s.madeFor(pod); len(claims) > 0 {
			return fmt.Errorf("%d are left, for instance %s", len(claims), claims[0].Name)
		}
		return nil
	})
}
