package allocator_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestErrorsOfDevices: an error names the device and its slice. Its text without the device is equal for all
// nodes whose devices have the same problem.
func TestErrorsOfDevices(t *testing.T) {
	derived := coreFeatures
	derived.DerivedAttributes = true
	derives := func(r *resourceapi.ExactDeviceRequest) {
		r.DerivedAttributes = []resourceapi.DeviceDerivedAttribute{{Name: "example.com/half", Expression: attr + ".numa"}}
	}
	tests := map[string]struct {
		request *b.RequestBuilder
		without string
	}{
		"selector": {
			request: b.Request("gpu", "gpu").Where(attr + ".numa == 1"),
			without: "claim default/c request gpu selector 0: CEL runtime error: no such key: numa",
		},
		"derived attribute": {
			request: b.Request("gpu", "gpu").Modify(derives),
			without: "claim default/c request gpu derived attribute example.com/half: ",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := cluster{slices: []*b.SliceBuilder{b.Slice("slice").InPool("pool", 1, 1).OnNode("n").Devices(b.Device("gpu-0"))}, features: &derived}
			_, err := c.solve(t.Context(), b.Claim("c", tc.request).Match("example.com/half"))
			var onDevice interface {
				error
				WithoutDevice() string
			}
			require.ErrorAs(t, err, &onDevice)
			require.Contains(t, err.Error(), "on device gpu.example.com/pool/gpu-0 of slice slice: ")
			require.Contains(t, onDevice.WithoutDevice(), tc.without)
			require.NotContains(t, onDevice.WithoutDevice(), "gpu-0")
		})
	}
}
