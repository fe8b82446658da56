package config

import (
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// CELFeatures returns the features of the CEL environment. Like the in-tree plugin's, they follow the gates, even
// where the allocator does not: an expression that the API server accepts must compile.
func CELFeatures(features kube.Features) cel.Features {
	return cel.Features{
		EnableConsumableCapacity: features.EnableDRAConsumableCapacity,
		EnableListTypeAttributes: features.EnableDRAListTypeAttributes,
	}
}

// AllocatorFeatures returns the enabled features of the allocator that the plugin supports. The plugin supports all
// features of this version; the next version may have others.
func AllocatorFeatures(features kube.Features) structured.Features {
	return structured.Features{
		AdminAccess:             features.EnableDRAAdminAccess,
		CompatibilityGroups:     features.EnableDRADeviceCompatibilityGroups,
		ConsumableCapacity:      features.EnableDRAConsumableCapacity,
		DerivedAttributes:       features.EnableDRADerivedAttributes,
		DeviceBindingAndStatus:  bindingConditions(features),
		DeviceTaints:            features.EnableDRADeviceTaints,
		FractionalCapacityRange: features.EnableDRAFractionalCapacityRange,
		ListTypeAttributes:      features.EnableDRAListTypeAttributes,
		OptionalNodeOperations:  features.EnableDRAOptionalNodeOperations,
		PartitionableDevices:    features.EnableDRAPartitionableDevices,
		PrioritizedList:         features.EnableDRAPrioritizedList,
	}
}

// bindingConditions reports whether devices with binding conditions can be used.
func bindingConditions(features kube.Features) bool {
	return features.EnableDRADeviceBindingConditions && features.EnableDRAResourceClaimDeviceStatus
}
