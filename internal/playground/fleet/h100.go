package fleet

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
)

const (
	// H100Driver publishes the GPUs of an H100 node.
	H100Driver = "gpu.nvidia.com"
	// ComputeDomainDriver publishes the IMEX daemon and channel of such a node.
	ComputeDomainDriver = "compute-domain.nvidia.com"
	// RDMADriver publishes the RDMA NICs of such a node.
	RDMADriver = "rdma.example.com"

	// PCIeRootAttribute is the standard attribute by which devices of
	// different drivers are found to share a PCIe root (KEP-4381).
	PCIeRootAttribute resourceapi.QualifiedName = "resource.kubernetes.io/pcieRoot"
	pciBusIDAttribute resourceapi.QualifiedName = "resource.kubernetes.io/pciBusID"
)

// h100PCIeRoots are the PCIe roots of GPUs 0 to 7, one for each.
var h100PCIeRoots = []string{
	"pci0000:44", "pci0000:55", "pci0000:66", "pci0000:77",
	"pci0000:88", "pci0000:99", "pci0000:aa", "pci0000:bb",
}

// h100PublishedOrder is the order in which the driver lists the GPUs. It is
// not the order of their names, and the search order of devices follows it.
var h100PublishedOrder = []int{3, 4, 5, 6, 7, 0, 1, 2}

// H100Slices are what an 8 × H100 node publishes: its GPUs, its compute domain
// devices, and an RDMA NIC on the PCIe root of each GPU in nicRoots (numbers
// of GPUs, 0 to 7), in that order.
func H100Slices(node string, nicRoots ...int) []*resourceapi.ResourceSlice {
	gpus := make([]resourceapi.Device, 0, len(h100PublishedOrder))
	for _, index := range h100PublishedOrder {
		gpus = append(gpus, h100GPU(node, index))
	}
	published := []*resourceapi.ResourceSlice{
		LocalSlice(ComputeDomainDriver, node, computeDomainDevice("daemon"), computeDomainDevice("channel")),
		LocalSlice(H100Driver, node, gpus...),
	}
	nics := make([]resourceapi.Device, 0, len(nicRoots))
	for index, root := range nicRoots {
		nics = append(nics, rdmaNIC(node, index, h100PCIeRoots[root]))
	}
	if len(nics) > 0 {
		published = append(published, LocalSlice(RDMADriver, node, nics...))
	}
	return published
}

func h100GPU(node string, index int) resourceapi.Device {
	return resourceapi.Device{
		Name: fmt.Sprintf("gpu-%d", index),
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"addressingMode":        stringAttribute("HMM"),
			"architecture":          stringAttribute("Hopper"),
			"brand":                 stringAttribute("Nvidia"),
			"cudaComputeCapability": versionAttribute("9.0.0"),
			"cudaDriverVersion":     versionAttribute("13.0.0"),
			"driverVersion":         versionAttribute("580.105.8"),
			"productName":           stringAttribute("NVIDIA H100 80GB HBM3"),
			"type":                  stringAttribute("gpu"),
			"uuid":                  stringAttribute(deviceUUID("GPU", node, index)),
			// The bus numbers of the GPUs are 0x11 apart, from 0x53 on.
			pciBusIDAttribute: stringAttribute(fmt.Sprintf("0000:%02x:00.0", 0x53+0x11*index)),
			PCIeRootAttribute: stringAttribute(h100PCIeRoots[index]),
		},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			"memory": capacity("81559Mi"),
		},
	}
}

func computeDomainDevice(kind string) resourceapi.Device {
	return resourceapi.Device{
		Name: kind + "-0",
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"id":   intAttribute(0),
			"type": stringAttribute(kind),
		},
	}
}

func rdmaNIC(node string, index int, pcieRoot string) resourceapi.Device {
	return resourceapi.Device{
		Name: fmt.Sprintf("nic-%d", index),
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"linkSpeedGbps":   intAttribute(400),
			"uuid":            stringAttribute(deviceUUID("nic", node, index)),
			PCIeRootAttribute: stringAttribute(pcieRoot),
		},
	}
}
