package capacity_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/capacity"
)

// TestEndless: resource.Quantity would calculate with such numbers for hours.
func TestEndless(t *testing.T) {
	const name = resourceapi.QualifiedName("bandwidth")
	endless, one := resource.MustParse("1e999999999"), resource.MustParse("1")
	asked := func(quantity resource.Quantity) *resourceapi.CapacityRequirements {
		return &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{name: quantity}}
	}
	device := func(of resourceapi.DeviceCapacity) map[resourceapi.QualifiedName]resourceapi.DeviceCapacity {
		return map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{name: of}
	}
	_, err := capacity.Rules{}.Consume(asked(endless), device(resourceapi.DeviceCapacity{Value: one}))
	require.ErrorContains(t, err, "capacity bandwidth (1e999999999 asked for): the number has too many digits to calculate with; ask for less")
	for title, of := range map[string]resourceapi.DeviceCapacity{
		"value":   {Value: endless},
		"default": {Value: one, RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: &endless}},
		"values":  {Value: one, RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: &one, ValidValues: []resource.Quantity{one, endless}}},
		"range":   {Value: one, RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: &one, ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: ptr.To(one), Max: &endless}}},
	} {
		for _, requested := range []*resourceapi.CapacityRequirements{nil, asked(one)} {
			consumption, err := capacity.Rules{}.Consume(requested, device(of))
			require.NoError(t, err, title)
			require.True(t, consumption.Refused, title)
		}
	}
}
