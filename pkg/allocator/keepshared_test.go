package allocator_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestKeepShared: a driver stops offering a device for sharing while a claim still has a share of it.
func TestKeepShared(t *testing.T) {
	t.Parallel()
	shareOf := func(consumed string) *resourceapi.ResourceClaim {
		claim := heldBy("user", "p", "nic")
		claim.Status.Allocation.Devices.Results[0].ShareID = ptr.To(types.UID("share"))
		if consumed != "" {
			claim.Status.Allocation.Devices.Results[0].ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{
				"bandwidth": resource.MustParse(consumed)}
		}
		return claim
	}
	half := b.Request("r", "gpu").Capacity("bandwidth", "5")
	tests := map[string]struct {
		device  *b.DeviceBuilder
		held    *resourceapi.ResourceClaim
		request *b.RequestBuilder
		// upstream is whether the device is allocated without KeepShared, kept with it.
		upstream, kept bool
	}{
		"no capacity":                 {b.Device("nic"), shareOf(""), b.Request("r", "gpu"), true, false},
		"nothing consumed":            {b.Device("nic").Capacity("bandwidth", "10"), shareOf(""), b.Request("r", "gpu"), true, false},
		"half consumed, all wanted":   {b.Device("nic").Capacity("bandwidth", "10"), shareOf("5"), b.Request("r", "gpu"), false, false},
		"half consumed, half wanted":  {b.Device("nic").Capacity("bandwidth", "10"), shareOf("5"), half, true, false},
		"for administrators":          {b.Device("nic"), shareOf(""), b.Request("r", "gpu").Admin(), true, true},
		"still shared":                {b.Device("nic").Shared(), shareOf(""), b.Request("r", "gpu"), true, true},
		"still shared, half is there": {b.Device("nic").Shared().Capacity("bandwidth", "10"), shareOf("5"), half, true, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cluster{
				slices: []*b.SliceBuilder{onNode("p", test.device)}, held: []*resourceapi.ResourceClaim{test.held},
				features: &allocator.Supported,
			}
			for keep, want := range map[bool]bool{false: test.upstream, true: test.kept} {
				solver := c.solver()
				solver.KeepShared = keep
				solver.Evaluator = selector.NewEvaluator(cel.NewCache(1, cel.Features{EnableConsumableCapacity: true}))
				outcome, err := solver.Prepare(objects([]*b.ClaimBuilder{b.Claim("c", test.request)})).Solve(t.Context(), c.site())
				require.NoError(t, err)
				require.Equal(t, want, outcome.Fits(), "KeepShared: %v", keep)
				if keep && !want && test.upstream {
					require.Contains(t, outcome.Reason(), "held by another claim")
				}
			}
		})
	}
}
