package allocator_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/placement"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestValueOfRoom: a task without claims costs what its CPU and memory take away from likely requests. Devices that are
// held, or that taints keep from these requests, lose nothing.
func TestValueOfRoom(t *testing.T) {
	t.Parallel()
	demand := &placement.Demand{
		Version: 1, Kinds: []string{placement.AnyDevice}, Shapes: []placement.Shape{{Weight: 1, MilliCPU: 8000, Requests: []placement.Request{{Count: 1}}}},
	}
	tainted := func(effect resourceapi.DeviceTaintEffect) []*b.DeviceBuilder {
		devices := gpus(4)
		devices[0].Taint("broken", effect)
		devices[1].Taint("broken", effect)
		return devices
	}
	for name, test := range map[string]struct {
		cluster
		free int // devices for likely requests
	}{
		"free":              {cluster: cluster{slices: []*b.SliceBuilder{onNode("n", gpus(4)...)}}, free: 4},
		"held":              {cluster: cluster{slices: []*b.SliceBuilder{onNode("n", gpus(4)...)}, held: []*resourceapi.ResourceClaim{heldBy("a", "n", "gpu-0", "gpu-3")}}, free: 2},
		"NoSchedule":        {cluster: cluster{slices: []*b.SliceBuilder{onNode("n", tainted(resourceapi.DeviceTaintEffectNoSchedule)...)}}, free: 2},
		"NoExecute":         {cluster: cluster{slices: []*b.SliceBuilder{onNode("n", tainted(resourceapi.DeviceTaintEffectNoExecute)...)}}, free: 2},
		"None":              {cluster: cluster{slices: []*b.SliceBuilder{onNode("n", tainted(resourceapi.DeviceTaintEffectNone)...)}}, free: 4},
		"taints are off":    {cluster: cluster{slices: []*b.SliceBuilder{onNode("n", tainted(resourceapi.DeviceTaintEffectNoSchedule)...)}, features: without(func(f *structured.Features) { f.DeviceTaints = false })}, free: 4},
		"no devices at all": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := test.site()
			site.Objective = &allocator.Objective{Demand: demand}
			site.Free, site.Asked = allocator.Resources{MilliCPU: 20_000, Memory: -1}, allocator.Resources{MilliCPU: 6000}
			outcome, err := test.solver().Prepare(nil).Rate(t.Context(), site)
			require.NoError(t, err)
			require.True(t, outcome.Fits())
			value := func(cpu int64) placement.Value {
				state := placement.State{MilliCPU: cpu}
				for i := range test.free {
					state.Devices = append(state.Devices, placement.Device{Kinds: 1, Unit: int32(i), Size: 1, Free: 1})
				}
				return demand.Assess(&state, nil)
			}
			require.InDelta(t, placement.Cost(value(20_000), value(14_000)), outcome.Value.Cost, 1e-6)
			require.Equal(t, test.free > 0, outcome.Value.Cost > 0)
		})
	}
}
