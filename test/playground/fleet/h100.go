package fleet

import (
	"fmt"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

const (
	// H100Driver publishes the GPUs of an H100 node.
	H100Driver = "gpu.nvidia.com"
	// ComputeDomainDriver publishes the IMEX daemon and channel of such a node.
	ComputeDomainDriver = "compute-domain.nvidia.com"
	// RDMADriver publishes the RDMA NICs of such a node.
	RDMADriver = "rdma.example.com"

	// PCIeRootAttribute is the standard attribute that shows whether devices of different drivers share a PCIe root
	// (KEP-4381).
	PCIeRootAttribute = "resource.kubernetes.io/pcieRoot"
	pciBusIDAttribute = "resource.kubernetes.io/pciBusID"
)

// h100PCIeRoots are the PCIe roots of GPUs 0 to 7, one for each.
var h100PCIeRoots = []string{
	"pci0000:44", "pci0000:55", "pci0000:66", "pci0000:77",
	"pci0000:88", "pci0000:99", "pci0000:aa", "pci0000:bb",
}

// h100PublishedOrder is the order in which the driver lists the GPUs. It differs from the order of their names, and
// the search order of devices follows it.
var h100PublishedOrder = []int{3, 4, 5, 6, 7, 0, 1, 2}

// H100Slices returns the slices of an 8 × H100 node: its GPUs, its compute domain devices, and an RDMA NIC on the
// PCIe root of each GPU in nicRoots (numbers of GPUs, 0 to 7), in that order.
func H100Slices(node string, nicRoots ...int) []*builder.SliceBuilder {
	gpus := make([]*builder.DeviceBuilder, 0, len(h100PublishedOrder))
	for _, index := range h100PublishedOrder {
		gpus = append(gpus, h100GPU(node, index))
	}
	published := []*builder.SliceBuilder{
		LocalSlice(ComputeDomainDriver, node, computeDomainDevice("daemon"), computeDomainDevice("channel")),
		LocalSlice(H100Driver, node, gpus...),
	}
	nics := make([]*builder.DeviceBuilder, 0, len(nicRoots))
	for index, root := range nicRoots {
		nics = append(nics, rdmaNIC(node, index, h100PCIeRoots[root]))
	}
	if len(nics) > 0 {
		published = append(published, LocalSlice(RDMADriver, node, nics...))
	}
	return published
}

func h100GPU(node string, index int) *builder.DeviceBuilder {
	return builder.Device(fmt.Sprintf("gpu-%d", index)).
		Attr("addressingMode", "HMM").
		Attr("architecture", "Hopper").
		Attr("brand", "Nvidia").
		Attr("cudaComputeCapability", builder.Version("9.0.0")).
		Attr("cudaDriverVersion", builder.Version("13.0.0")).
		Attr("driverVersion", builder.Version("580.105.8")).
		Attr("productName", "NVIDIA H100 80GB HBM3").
		Attr("type", "gpu").
		Attr("uuid", deviceUUID("GPU", node, index)).
		// The bus numbers of the GPUs are 0x11 apart, from 0x53 on.
		Attr(pciBusIDAttribute, fmt.Sprintf("0000:%02x:00.0", 0x53+0x11*index)).
		Attr(PCIeRootAttribute, h100PCIeRoots[index]).
		Capacity("memory", "81559Mi")
}

func computeDomainDevice(kind string) *builder.DeviceBuilder {
	return builder.Device(kind+"-0").Attr("id", 0).Attr("type", kind)
}

func rdmaNIC(node string, index int, pcieRoot string) *builder.DeviceBuilder {
	return builder.Device(fmt.Sprintf("nic-%d", index)).
		Attr("linkSpeedGbps", 400).
		Attr("uuid", deviceUUID("nic", node, index)).
		Attr(PCIeRootAttribute, pcieRoot)
}
