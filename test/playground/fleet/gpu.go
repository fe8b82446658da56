package fleet

import (
	"fmt"

	"github.com/quartermaster-dra/quartermaster/test/builder"
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

// PlainGPU returns device "gpu-<index>" of a pool: an exclusive GPU with 80 GiB.
func PlainGPU(pool string, index int) *builder.DeviceBuilder {
	return gpuOfModel(LargeGPU, "80Gi", pool, index)
}

// PlainGPUs returns count GPUs of 80 GiB of a pool, with the indices from first on.
func PlainGPUs(pool string, first, count int) []*builder.DeviceBuilder {
	return numbered(first, count, func(index int) *builder.DeviceBuilder { return PlainGPU(pool, index) })
}

// SmallPlainGPUs returns GPUs like PlainGPUs, with 40 GiB.
func SmallPlainGPUs(pool string, first, count int) []*builder.DeviceBuilder {
	return numbered(first, count, func(index int) *builder.DeviceBuilder {
		return gpuOfModel(SmallGPU, "40Gi", pool, index)
	})
}

func gpuOfModel(model, memory, pool string, index int) *builder.DeviceBuilder {
	return builder.Device(fmt.Sprintf("gpu-%d", index)).
		Attr("board", index/gpusPerBoard).
		Attr("driverVersion", builder.Version("1.0.0")).
		Attr("index", index).
		Attr("model", model).
		Attr("numaNode", index/gpusPerNUMANode).
		Attr("uuid", deviceUUID("gpu", pool, index)).
		Capacity("compute", "100").
		Capacity("memory", memory)
}
