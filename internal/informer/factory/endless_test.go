package factory

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
)

// TestEndlessCapacity: a driver publishes a device with an astronomical capacity next to an ordinary one. The
// informer that keeps the slice must not hang, and must keep both as they were published.
func TestEndlessCapacity(t *testing.T) {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourceapi.ResourceSliceSpec{Driver: "d.example"}}
	for _, value := range []string{"1e999999999", "80Gi"} {
		quantity := resource.MustParse(value)
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: "d", Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			"memory": {Value: quantity, RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: &quantity}}}})
	}
	want := slice.DeepCopy().Spec.Devices
	_, err := transform(newContents().slice)(slice)
	require.NoError(t, err)
	for i := range want {
		require.True(t, quantity.DeepEqual(want[i].Capacity, slice.Spec.Devices[i].Capacity))
	}
}
