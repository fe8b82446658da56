package fleet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

func deviceNames(devices []resourceapi.Device) []string {
	var names []string
	for _, device := range devices {
		names = append(names, device.Name)
	}
	return names
}

func TestPlainGPUs(t *testing.T) {
	t.Parallel()
	gpus := PlainGPUs("node-a", 2, 3)
	require.Equal(t, []string{"gpu-2", "gpu-3", "gpu-4"}, deviceNames(gpus))
	require.Empty(t, cmp.Diff(gpus, PlainGPUs("node-a", 2, 3)), "the same call gives the same devices")

	uuids := map[string]bool{}
	for _, pool := range []string{"node-a", "node-b"} {
		for _, gpu := range append(PlainGPUs(pool, 0, 8), SmallPlainGPUs(pool, 8, 8)...) {
			uuids[*gpu.Attributes["uuid"].StringValue] = true
		}
	}
	require.Len(t, uuids, 32, "all UUIDs differ")
	for uuid := range uuids {
		require.Regexp(t, `^gpu-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`, uuid)
	}

	large, small := PlainGPU("n", 0).Capacity["memory"].Value, SmallPlainGPU("n", 0).Capacity["memory"].Value
	require.Equal(t, "80Gi", large.String())
	require.Equal(t, "40Gi", small.String())
	gpu := PlainGPU("n", 5)
	require.Equal(t, int64(2), *gpu.Attributes["board"].IntValue, "boards of two")
	require.Equal(t, int64(1), *gpu.Attributes["numaNode"].IntValue, "NUMA nodes of four")
}

func TestChangedGPUsLeaveOthersAlone(t *testing.T) {
	t.Parallel()
	first, second := PlainGPU("n", 0), PlainGPU("n", 1)
	first = Tainted(WithDriverVersion(first, "2.0.0"), "key", "value", resourceapi.DeviceTaintEffectNoSchedule)
	require.Equal(t, "2.0.0", *first.Attributes["driverVersion"].VersionValue)
	require.Equal(t, []resourceapi.DeviceTaint{{Key: "key", Value: "value", Effect: "NoSchedule"}}, first.Taints)
	require.Equal(t, "1.0.0", *second.Attributes["driverVersion"].VersionValue)
	require.Empty(t, second.Taints)
}

func TestH100Slices(t *testing.T) {
	t.Parallel()
	published := H100Slices("h100", 0, 5)
	require.Len(t, published, 3)
	gpus, nics := published[1], published[2]
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

func TestReachOfSlices(t *testing.T) {
	t.Parallel()
	inRack := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: RackLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}},
	}}}
	yes, node := true, "n"
	pool := func(name string) resourceapi.ResourcePool {
		return resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1}
	}
	for name, tc := range map[string]struct {
		got  *resourceapi.ResourceSlice
		want resourceapi.ResourceSliceSpec
	}{
		"local":           {LocalSlice("d", "n"), resourceapi.ResourceSliceSpec{Driver: "d", Pool: pool("n"), NodeName: &node}},
		"labelled nodes":  {LabelledNodesSlice("d", "p", RackLabel, "a"), resourceapi.ResourceSliceSpec{Driver: "d", Pool: pool("p"), NodeSelector: inRack}},
		"all nodes":       {AllNodesSlice("d", "p"), resourceapi.ResourceSliceSpec{Driver: "d", Pool: pool("p"), AllNodes: &yes}},
		"per device":      {PerDeviceSlice("d", "p"), resourceapi.ResourceSliceSpec{Driver: "d", Pool: pool("p"), PerDeviceNodeSelection: &yes}},
		"part of a pool":  {Part(LocalSlice("d", "n"), 1, 3), resourceapi.ResourceSliceSpec{Driver: "d", Pool: resourceapi.ResourcePool{Name: "n", Generation: 1, ResourceSliceCount: 3}, NodeName: &node}},
		"next generation": {Generation(LocalSlice("d", "n"), 2), resourceapi.ResourceSliceSpec{Driver: "d", Pool: resourceapi.ResourcePool{Name: "n", Generation: 2, ResourceSliceCount: 1}, NodeName: &node}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, cmp.Diff(tc.want, tc.got.Spec))
		})
	}

	devices := FabricDevices("p", 0, 3)
	perDevice := []resourceapi.Device{OnNode(devices[0], "n"), OnLabelledNodes(devices[1], RackLabel, "a"), OnAllNodes(devices[2])}
	require.Equal(t, "n", *perDevice[0].NodeName)
	require.Equal(t, inRack, perDevice[1].NodeSelector)
	require.True(t, *perDevice[2].AllNodes)
}

func TestNode(t *testing.T) {
	t.Parallel()
	node := Node("n", "pool", map[string]string{RackLabel: "a"})
	require.Equal(t, "pool", node.Labels[NodePoolLabel])
	require.Equal(t, "a", node.Labels[RackLabel])
	require.Equal(t, "fake", node.Annotations["kwok.x-k8s.io/node"], "KWOK looks after nodes with this annotation only")
	require.False(t, node.Status.Allocatable.Pods().IsZero())
	require.Equal(t, []string{"solver-0", "solver-1"}, deviceNames(Licenses("solver", 2)))
	require.Equal(t, []string{"fabric-3", "fabric-4"}, deviceNames(FabricDevices("p", 3, 2)))
}
