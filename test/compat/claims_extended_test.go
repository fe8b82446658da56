package compat

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Where controllers of drivers allocate, too, a pod that asks for devices as an extended
// resource is told that the API server cannot have that. In 1.29 there is nothing else.
func TestClassicExtendedResource(t *testing.T) {
	t.Parallel()
	s := newClassicSpace(t, "c-extended", 1)
	d := newDriver(s, "one", places(1))
	pod := s.Pod("user", nil)
	amounts := corev1.ResourceList{corev1.ResourceName(resourceapi.ResourceDeviceClassPrefix + d.class): resource.MustParse("1")}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: amounts, Limits: amounts}
	s.Create(pod)
	s.Waiting("user", "the API server is too old")
	require.Zero(t, s.Allocated())
}
