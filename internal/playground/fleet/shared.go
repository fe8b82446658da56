package fleet

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
)

const (
	// FabricDriver publishes network-attached accelerators.
	FabricDriver = "fabric.example.com"
	// LicenseDriver publishes floating licences: devices without a place.
	LicenseDriver = "license.example.com"
	// EdgeDriver publishes accelerators that nodes reach in different ways.
	EdgeDriver = "edge.example.com"
)

// FabricDevices are count network-attached accelerators of a pool (of
// FabricDriver or EdgeDriver), with the indices from first on.
func FabricDevices(pool string, first, count int) []resourceapi.Device {
	devices := make([]resourceapi.Device, 0, count)
	for index := first; index < first+count; index++ {
		devices = append(devices, resourceapi.Device{
			Name: fmt.Sprintf("fabric-%d", index),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"index": intAttribute(index),
				"model": stringAttribute("FABRIC-MODEL"),
				"uuid":  stringAttribute(deviceUUID("fabric", pool, index)),
			},
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
				"memory": capacity("192Gi"),
			},
		})
	}
	return devices
}

// Licenses are count floating licences of a product.
func Licenses(product string, count int) []resourceapi.Device {
	devices := make([]resourceapi.Device, 0, count)
	for index := range count {
		devices = append(devices, resourceapi.Device{
			Name: fmt.Sprintf("%s-%d", product, index),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"product": stringAttribute(product),
			},
		})
	}
	return devices
}
