package write

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// fullAllocation uses all fields that survive a round trip in different forms.
func fullAllocation(parameters, capacity string) *resourceapi.AllocationResult {
	share := types.UID("share")
	allocation := newAllocation("gpu-0", "gpu-1")
	first := &allocation.Devices.Results[0]
	first.ShareID = &share
	first.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(capacity)}
	first.Tolerations = []resourceapi.DeviceToleration{{Key: "example.com/broken", Operator: resourceapi.DeviceTolerationOpEqual}}
	config := resourceapi.DeviceAllocationConfiguration{Source: resourceapi.AllocationConfigSourceClass}
	config.Opaque = &resourceapi.OpaqueDeviceConfiguration{Driver: "gpu.example.com"}
	config.Opaque.Parameters.Raw = []byte(parameters)
	allocation.Devices.Config = []resourceapi.DeviceAllocationConfiguration{config}
	allocation.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"node-a"}}},
	}}}
	return allocation
}

func TestSameAllocation(t *testing.T) {
	t.Parallel()
	const parameters = `{"mode":"<fast>","count":1}`
	for name, tc := range map[string]struct {
		change func(*resourceapi.AllocationResult)
		want   bool
	}{
		"unchanged": {func(*resourceapi.AllocationResult) {}, true},
		"time does not count": {func(a *resourceapi.AllocationResult) {
			timestamp := metav1.NewTime(now)
			a.AllocationTimestamp = &timestamp
		}, true},
		"defaulted toleration": {func(a *resourceapi.AllocationResult) {
			a.Devices.Results[0].Tolerations[0].Operator = ""
		}, true},
		"formatted parameters": {func(a *resourceapi.AllocationResult) {
			a.Devices.Config[0].Opaque.Parameters.Raw = []byte("{\"count\": 1,\n \"mode\": \"\\u003cfast\\u003e\"}")
		}, true},
		"formatted quantity": {func(a *resourceapi.AllocationResult) {
			a.Devices.Results[0].ConsumedCapacity["memory"] = resource.MustParse("1024Mi")
		}, true},
		"empty instead of nil": {func(a *resourceapi.AllocationResult) {
			a.Devices.Results[1].Tolerations = []resourceapi.DeviceToleration{}
			a.Devices.Config[0].Requests = []string{}
		}, true},
		"other device": {func(a *resourceapi.AllocationResult) {
			a.Devices.Results[1].Device = "gpu-2"
		}, false},
		"fewer devices": {func(a *resourceapi.AllocationResult) {
			a.Devices.Results = a.Devices.Results[:1]
		}, false},
		"other order": {func(a *resourceapi.AllocationResult) {
			results := a.Devices.Results
			results[0], results[1] = results[1], results[0]
		}, false},
		"other share": {func(a *resourceapi.AllocationResult) {
			share := types.UID("other")
			a.Devices.Results[0].ShareID = &share
		}, false},
		"other capacity": {func(a *resourceapi.AllocationResult) {
			a.Devices.Results[0].ConsumedCapacity["memory"] = resource.MustParse("2Gi")
		}, false},
		"other parameters": {func(a *resourceapi.AllocationResult) {
			a.Devices.Config[0].Opaque.Parameters.Raw = []byte(`{"mode":"slow","count":1}`)
		}, false},
		"parameters that are no JSON": {func(a *resourceapi.AllocationResult) {
			a.Devices.Config[0].Opaque.Parameters.Raw = []byte(`{`)
		}, false},
		"other nodes": {func(a *resourceapi.AllocationResult) {
			a.NodeSelector.NodeSelectorTerms[0].MatchFields[0].Values[0] = "node-b"
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := fullAllocation(parameters, "1Gi"), fullAllocation(parameters, "1Gi")
			tc.change(b)
			before := b.DeepCopy()
			require.Equal(t, tc.want, SameAllocation(a, b))
			require.Equal(t, tc.want, SameAllocation(b, a))
			require.Equal(t, before, b, "comparing must not modify")
		})
	}
	require.True(t, SameAllocation(nil, nil))
	require.False(t, SameAllocation(nil, newAllocation()))
	require.False(t, SameAllocation(newAllocation(), nil))
}
