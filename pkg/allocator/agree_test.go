package allocator_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// The search skips values that too few devices have. It counts the devices over all pools, each of which
// numbers the value differently.
func TestDevicesOfSeveralPoolsAgree(t *testing.T) {
	t.Parallel()
	lists := func(devices []*b.DeviceBuilder, pool string) []*b.DeviceBuilder {
		for i, device := range devices {
			device.Attr("links", resourceapi.DeviceAttribute{StringValues: []string{
				fmt.Sprintf("%s-own-%d", pool, i), "common", fmt.Sprintf("%s-%d", pool, i%2),
			}})
		}
		return devices
	}
	world := cluster{slices: []*b.SliceBuilder{onNode("p", lists(gpus(4), "p")...), onNode("q", lists(gpus(3), "q")...)}}
	result := world.mustFit(t, wants(7).Match("gpu.example.com/links"))
	require.Len(t, result[0].Devices.Results, 7, "all have the value that comes second")

	apart := cluster{slices: []*b.SliceBuilder{
		onNode("p", numbered(gpus(4), "numa", 0, 1)...), onNode("q", numbered(gpus(4), "numa", 2, 1)...),
	}}
	result = apart.mustFit(t, wants(4).Match("gpu.example.com/numa"))
	require.Equal(t, []string{"gpu=p/gpu-1", "gpu=p/gpu-3", "gpu=q/gpu-1", "gpu=q/gpu-3"}, chosen(result[0]))
	outcome := apart.mustNotFit(t, wants(5).Match("gpu.example.com/numa"))
	require.Zero(t, outcome.Steps, "that no value will do is known before any device is tried")
}

// A device that can be allocated several times counts more than once.
func TestOneSharedDeviceAgreesWithItself(t *testing.T) {
	t.Parallel()
	features := coreFeatures
	features.ConsumableCapacity = true
	share := func(name string) *b.RequestBuilder { return b.Request(name, "gpu").Capacity("bandwidth", "10") }
	claim := b.Claim("c", share("one"), share("two")).Match("gpu.example.com/rail")
	nic := func() *b.DeviceBuilder { return b.Device("nic").Attr("rail", 1).Capacity("bandwidth", "100") }
	result := nodeWith(0, nic().Shared()).withFeatures(&features).mustFit(t, claim)
	require.Equal(t, []string{"one=p/nic", "two=p/nic"}, chosen(result[0]))
	nodeWith(0, nic()).withFeatures(&features).mustNotFit(t, claim)
}
