package fleet

import (
	"fmt"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

const (
	// FabricDriver publishes network-attached accelerators.
	FabricDriver = "fabric.example.com"
	// LicenseDriver publishes floating licences: devices without a location.
	LicenseDriver = "license.example.com"
	// EdgeDriver publishes accelerators that nodes reach in different ways.
	EdgeDriver = "edge.example.com"
)

// FabricDevices returns count network-attached accelerators of a pool (of FabricDriver or EdgeDriver), with the
// indices from first on.
func FabricDevices(pool string, first, count int) []*builder.DeviceBuilder {
	return numbered(first, count, func(index int) *builder.DeviceBuilder {
		return builder.Device(fmt.Sprintf("fabric-%d", index)).
			Attr("index", index).
			Attr("model", "FABRIC-MODEL").
			Attr("uuid", deviceUUID("fabric", pool, index)).
			Capacity("memory", "192Gi")
	})
}

// Licenses returns count floating licences of a product.
func Licenses(product string, count int) []*builder.DeviceBuilder {
	return numbered(0, count, func(index int) *builder.DeviceBuilder {
		return builder.Device(fmt.Sprintf("%s-%d", product, index)).Attr("product", product)
	})
}
