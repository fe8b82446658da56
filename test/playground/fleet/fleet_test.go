package fleet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// published are devices as a slice lists them.
func published(devices []*builder.DeviceBuilder) []resourceapi.Device {
	return Slice("d", "p", devices...).Obj().Spec.Devices
}

func deviceNames(devices []resourceapi.Device) []string {
	var names []string
	for _, device := range devices {
		names = append(names, device.Name)
	}
	return names
}

func TestPlainGPUs(t *testing.T) {
	t.Parallel()
	gpus := published(PlainGPUs("node-a", 2, 3))
	require.Equal(t, []string{"gpu-2", "gpu-3", "gpu-4"}, deviceNames(gpus))
	require.Empty(t, cmp.Diff(gpus, published(PlainGPUs("node-a", 2, 3))), "the same call gives the same devices")

	uuids := map[string]bool{}
	for _, pool := range []string{"node-a", "node-b"} {
		for _, gpu := range published(append(PlainGPUs(pool, 0, 8), SmallPlainGPUs(pool, 8, 8)...)) {
			uuids[*gpu.Attributes["uuid"].StringValue] = true
		}
	}
	require.Len(t, uuids, 32, "all UUIDs differ")
	for uuid := range uuids {
		require.Regexp(t, `^gpu-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`, uuid)
	}

	large, small := published(PlainGPUs("n", 0, 1))[0].Capacity["memory"].Value, published(SmallPlainGPUs("n", 0, 1))[0].Capacity["memory"].Value
	require.Equal(t, "80Gi", large.String())
	require.Equal(t, "40Gi", small.String())
	gpu := published(PlainGPUs("n", 5, 1))[0]
	require.Equal(t, int64(2), *gpu.Attributes["board"].IntValue, "boards of two")
	require.Equal(t, int64(1), *gpu.Attributes["numaNode"].IntValue, "NUMA nodes of four")
}

func TestH100Slices(t *testing.T) {
	t.Parallel()
	published := H100Slices("h100", 0, 5)
	require.Len(t, published, 3)
	gpus, nics := published[1].Obj(), published[2].Obj()
	require.Equal(t, []string{"gpu-3", "gpu-4", "gpu-5", "gpu-6", "gpu-7", "gpu-0", "gpu-1", "gpu-2"}, deviceNames(gpus.Spec.Devices))
	require.Equal(t, []string{"nic-0", "nic-1"}, deviceNames(nics.Spec.Devices))

	roots := map[string]string{}
	for _, gpu := range gpus.Spec.Devices {
		roots[gpu.Name] = *gpu.Attributes[PCIeRootAttribute].StringValue
	}
	require.Equal(t, roots["gpu-0"], *nics.Spec.Devices[0].Attributes[PCIeRootAttribute].StringValue)
	require.Equal(t, roots["gpu-5"], *nics.Spec.Devices[1].Attributes[PCIeRootAttribute].StringValue)
	distinct := map[string]bool{}
	for _, root := range roots {
		distinct[root] = true
	}
	require.Len(t, distinct, 8, "every GPU has a root of its own")
	require.Equal(t, "0000:86:00.0", *gpus.Spec.Devices[0].Attributes["resource.kubernetes.io/pciBusID"].StringValue)

	require.Len(t, H100Slices("h100"), 2, "no NICs, no slice for them")
}

func TestNode(t *testing.T) {
	t.Parallel()
	node := Node("n", "pool", map[string]string{RackLabel: "a"})
	require.Equal(t, "pool", node.Labels[NodePoolLabel])
	require.Equal(t, "a", node.Labels[RackLabel])
	require.Equal(t, "fake", node.Annotations["kwok.x-k8s.io/node"], "KWOK looks after nodes with this annotation only")
	require.False(t, node.Status.Allocatable.Pods().IsZero())
	require.Equal(t, []string{"solver-0", "solver-1"}, deviceNames(published(Licenses("solver", 2))))
	require.Equal(t, []string{"fabric-3", "fabric-4"}, deviceNames(published(FabricDevices("p", 3, 2))))
}
