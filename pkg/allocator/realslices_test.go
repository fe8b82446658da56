package allocator_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// slicesFrom reads slices as a real driver published them from test/realslices.
func slicesFrom(file string) []*resourceapi.ResourceSlice {
	data, err := os.ReadFile(filepath.Join("..", "..", "test", "realslices", file))
	if err != nil {
		panic(err)
	}
	var list resourceapi.ResourceSliceList
	if err := json.Unmarshal(data, &list); err != nil {
		panic(fmt.Sprintf("%s: %v", file, err))
	}
	slices := make([]*resourceapi.ResourceSlice, len(list.Items))
	for i := range list.Items {
		slices[i] = &list.Items[i]
	}
	return slices
}

// gpuNode is the slice of a node with n GPUs, each like the first of a real node
// with eight, on two NUMA nodes.
func gpuNode(n int) []*resourceapi.ResourceSlice {
	for _, slice := range slicesFrom("h100-node.json") {
		if slice.Spec.Driver != "gpu.nvidia.com" {
			continue
		}
		like := slice.Spec.Devices[0]
		slice.Spec.Devices = nil
		for i := range n {
			device := like.DeepCopy()
			device.Name = fmt.Sprintf("gpu-%03d", i)
			device.Attributes["numa"] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(i * 2 / n))}
			device.Attributes["uuid"] = resourceapi.DeviceAttribute{StringValue: ptr.To(fmt.Sprintf("GPU-%03d", i))}
			slice.Spec.Devices = append(slice.Spec.Devices, *device)
		}
		return []*resourceapi.ResourceSlice{slice}
	}
	panic("no GPUs in h100-node.json")
}
