package compat

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// Requests with alternatives, where the release has them.
func TestAlternatives(t *testing.T) {
	t.Parallel()
	notInV1alpha2(t, "requests in claims")
	s := newSpace(t, "alternatives", 1)
	s.Devices(0, harness.Numbered(2)...)
	claim := builder.Claim("either", builder.FirstAvailable("gpu",
		s.Want(3).Named("many"), s.Want(2).Named("few"))).Obj()
	if !alternatives.known() {
		_, err := cluster.Client.ResourceV1().ResourceClaims(s.Name).Create(t.Context(), builder.Unsaved(s.Name, claim.DeepCopy()), metav1.CreateOptions{})
		require.True(t, apierrors.IsInvalid(err), "the server drops the alternatives, and then there is no request left: %v", err)
		return
	}
	s.Create(claim, s.Pod("either", builder.Uses("either")))
	s.Running("either")
	require.Len(t, s.Results("either"), 2)
	require.Equal(t, "gpu/few", s.Results("either")[0].Request)
}

// Rules that taint devices, where the release has them. Without, their informer must not
// keep the scheduler from starting, which all other tests show.
func TestTaintRules(t *testing.T) {
	t.Parallel()
	if tested.rules == api.None {
		t.Skip("this release has no DeviceTaintRules")
	}
	s := newSpace(t, "rules", 1)
	s.Devices(0, harness.Numbered(2)...)
	untyped, err := dynamic.NewForConfig(cluster.ControlPlane.AdminConfig())
	require.NoError(t, err)
	rules := untyped.Resource(schema.GroupVersionResource{Group: resourceapi.GroupName, Version: string(tested.rules), Resource: "devicetaintrules"})
	rule := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resourceapi.GroupName + "/" + string(tested.rules), "kind": "DeviceTaintRule",
		"metadata": map[string]any{"name": s.Name},
		"spec": map[string]any{
			"deviceSelector": map[string]any{"driver": s.Driver, "pool": s.Node(0), "device": "gpu-0"},
			"taint":          map[string]any{"key": "example.com/sick", "effect": "NoSchedule"},
		},
	}}
	_, err = rules.Create(t.Context(), rule, metav1.CreateOptions{})
	require.NoError(t, err)
	s.ClaimAndPod("first", s.Want(1))
	s.Running("first")
	require.Equal(t, []string{s.Node(0) + "/gpu-1"}, s.DeviceNames("first"))
	s.ClaimAndPod("second", s.Want(1))
	s.Waiting("second", "claim "+s.Name+"/second", "not tolerated (example.com/sick)")
	require.NoError(t, rules.Delete(t.Context(), s.Name, metav1.DeleteOptions{}))
	s.RunningSoon("second")
}

// Extended resources that a device class stands for. Releases without claims in v1 have
// nowhere to record which devices serve them. TestOffExtendedResource is for those where
// the feature is off.
func TestExtendedResource(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "extended", 1)
	s.Devices(0, harness.Numbered(2)...)
	pod := s.Pod("user", nil)
	implicit := corev1.ResourceName(resourceapi.ResourceDeviceClassPrefix + s.Name)
	amounts := corev1.ResourceList{implicit: resource.MustParse("1")}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: amounts, Limits: amounts}
	s.Create(pod)
	if tested.claims != api.V1 {
		s.Waiting("user", "the API server is too old")
		require.Zero(t, s.Allocated())
		s.DeletePod("user") // Package checker would place it: it does not know the server's version.
		s.Gone("user")
		return
	}
	s.Running("user")
	require.NotNil(t, s.LivePod("user").Status.ExtendedResourceClaimStatus)
}
