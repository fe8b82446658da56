package fleet

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
)

const (
	// GPUDriver is the driver of the plain GPUs.
	GPUDriver = "gpu.example.com"

	// LargeGPU and SmallGPU are the models of plain GPUs.
	LargeGPU = "LATEST-GPU-MODEL"
	SmallGPU = "SMALL-GPU-MODEL"

	// gpusPerBoard and gpusPerNUMANode place the GPUs of one node.
	gpusPerBoard    = 2
	gpusPerNUMANode = 4
)

// gpuMemory is the memory of each model of plain GPUs.
var gpuMemory = map[string]string{LargeGPU: "80Gi", SmallGPU: "40Gi"}

// PlainGPU is device "gpu-<index>" of a pool: an exclusive GPU with 80 GiB.
func PlainGPU(pool string, index int) resourceapi.Device {
	return gpuOfModel(LargeGPU, pool, index)
}

// SmallPlainGPU is device "gpu-<index>" of a pool: an exclusive GPU with 40 GiB.
func SmallPlainGPU(pool string, index int) resourceapi.Device {
	return gpuOfModel(SmallGPU, pool, index)
}

// PlainGPUs are count large GPUs of a pool, with the indices from first on.
func PlainGPUs(pool string, first, count int) []resourceapi.Device {
	devices := make([]resourceapi.Device, 0, count)
	for index := first; index < first+count; index++ {
		devices = append(devices, PlainGPU(pool, index))
	}
	return devices
}

// SmallPlainGPUs are count small GPUs of a pool, with the indices from first on.
func SmallPlainGPUs(pool string, first, count int) []resourceapi.Device {
	devices := make([]resourceapi.Device, 0, count)
	for index := first; index < first+count; index++ {
		devices = append(devices, SmallPlainGPU(pool, index))
	}
	return devices
}

// WithDriverVersion sets the driver version of a plain GPU, a semantic version.
func WithDriverVersion(device resourceapi.Device, version string) resourceapi.Device {
	device.Attributes["driverVersion"] = versionAttribute(version)
	return device
}

func gpuOfModel(model, pool string, index int) resourceapi.Device {
	return resourceapi.Device{
		Name: fmt.Sprintf("gpu-%d", index),
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"board":         intAttribute(index / gpusPerBoard),
			"driverVersion": versionAttribute("1.0.0"),
			"index":         intAttribute(index),
			"model":         stringAttribute(model),
			"numaNode":      intAttribute(index / gpusPerNUMANode),
			"uuid":          stringAttribute(deviceUUID("gpu", pool, index)),
		},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			"compute": capacity("100"),
			"memory":  capacity(gpuMemory[model]),
		},
	}
}
