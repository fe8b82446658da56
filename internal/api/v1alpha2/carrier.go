package v1alpha2

import (
	"encoding/json"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Carrier is the driver name of opaque configurations in the hub that hold fields that v1 lacks. No server ever gets
// such a configuration.
const Carrier = "v1alpha2.resource.k8s.io"

// carry returns a configuration that holds a value.
func carry(value any) resourceapi.DeviceConfiguration {
	raw, err := json.Marshal(value)
	if err != nil {
		// Plain data, except for vendors' parameters, which were decoded from JSON.
		panic(fmt.Sprintf("write %T as JSON: %v; conversion has to refuse what is no JSON", value, err))
	}
	return resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
		Driver: Carrier, Parameters: runtime.RawExtension{Raw: raw},
	}}
}

// carried reads the value of carry. It reports false for any other configuration.
func carried(config *resourceapi.DeviceConfiguration, into any) (bool, error) {
	if config.Opaque == nil || config.Opaque.Driver != Carrier {
		return false, nil
	}
	if err := json.Unmarshal(config.Opaque.Parameters.Raw, into); err != nil {
		return true, fmt.Errorf("read the configuration for %s: %w", Carrier, err)
	}
	return true, nil
}
