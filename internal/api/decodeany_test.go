package api

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
)

// The same object in a user's file means the same in each version.
func TestDecode(t *testing.T) {
	t.Parallel()
	for version, request := range map[Version]string{
		V1:       `{"name": "gpu", "exactly": {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 2}}`,
		V1beta2:  `{"name": "gpu", "exactly": {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 2}}`,
		V1beta1:  `{"name": "gpu", "deviceClassName": "c", "allocationMode": "ExactCount", "count": 2}`,
		V1alpha3: `{"name": "gpu", "deviceClassName": "c", "allocationMode": "ExactCount", "count": 2}`,
	} {
		t.Run(string(version), func(t *testing.T) {
			t.Parallel()
			object, err := Decode(version, "ResourceClaim", []byte(`{"metadata": {"name": "x"}, "spec": {"devices": {"requests": [`+request+`]}}}`))
			require.NoError(t, err)
			exactly := object.(*resourceapi.ResourceClaim).Spec.Devices.Requests[0].Exactly
			require.NotNil(t, exactly)
			require.Equal(t, int64(2), exactly.Count)
			require.Equal(t, "c", exactly.DeviceClassName)

			object, err = Decode(version, "DeviceClass", []byte(`{"metadata": {"name": "x"}, "spec": {}, "spce": {}}`))
			require.ErrorIs(t, err, ErrUnknownFields)
			require.Equal(t, "x", object.GetName())
			_, err = Decode(version, "ResourceSlice", []byte(`{"spec": 1}`))
			require.ErrorContains(t, err, "read it")
		})
	}
	_, err := Decode(V1alpha2, "ResourceClaim", []byte(`{}`))
	require.ErrorContains(t, err, "version v1alpha2")
	_, err = Decode(V1beta1, "DeviceTaintRule", []byte(`{}`))
	require.ErrorContains(t, err, "write it as v1")
	_, err = Decode(V1, "Pod", []byte(`{}`))
	require.ErrorContains(t, err, "not known")
}
