package scenario

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
)

func reportedClaim(allocated bool) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaim"},
		ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "s"},
	}
	if allocated {
		share := types.UID("share")
		claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
			Results: []resourceapi.DeviceRequestAllocationResult{
				{Driver: "d", Pool: "p", Device: "one"}, {Driver: "d", Pool: "p", Device: "two", ShareID: &share},
			},
		}}
		claim.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: "d", Pool: "p", Device: "one"}}
	}
	return claim
}

// envWith returns the environment of a step that changes a claim.
func envWith(claim *resourceapi.ResourceClaim) (*Env, *fake.FakeDynamicClient) {
	client := fake.NewSimpleDynamicClient(scheme.Scheme, claim)
	return &Env{scenario: Scenario{Name: "s"}, objects: NewObjects(client), patience: 200 * time.Millisecond}, client
}

func TestReport(t *testing.T) {
	t.Parallel()
	env, client := envWith(reportedClaim(true))
	step := Report("c", "attached")
	require.Equal(t, "report that the devices of claim c are attached", step.Does)
	require.NoError(t, step.Run(t.Context(), env))

	content, err := client.Resource(resourceapi.SchemeGroupVersion.WithResource("resourceclaims")).Namespace("s").Get(t.Context(), "c", metav1.GetOptions{})
	require.NoError(t, err)
	var claim resourceapi.ResourceClaim
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(content.Object, &claim))
	require.Len(t, claim.Status.Devices, 2)
	for i, device := range []string{"one", "two"} {
		status := claim.Status.Devices[i]
		require.Equal(t, device, status.Device)
		require.Equal(t, device == "two", status.ShareID != nil)
		require.Equal(t, "attached", status.Conditions[0].Type)
		require.Equal(t, metav1.ConditionTrue, status.Conditions[0].Status)
	}
}

// A step that cannot succeed ends after its patience, with an error about the missing object or allocation.
func TestReportWaitsForTheAllocation(t *testing.T) {
	t.Parallel()
	env, _ := envWith(reportedClaim(false))
	err := Report("c", "attached").Run(t.Context(), env)
	require.ErrorIs(t, err, errNotAllocated)
	require.ErrorContains(t, err, "not done within 200ms")
	err = Report("absent", "attached").Run(t.Context(), env)
	require.ErrorContains(t, err, "read claim absent")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, Report("c", "attached").Run(ctx, env))
}
