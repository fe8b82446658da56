package v1alpha2

import (
	"encoding/json"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Carrier is the driver of those opaque configurations in the hub that hold what v1 has
// no fields for. No server ever gets to see such a configuration.
const Carrier = "v1alpha2.resource.k8s.io"

// carry returns the configuration that holds a value.
func carry(value any) resourceapi.DeviceConfiguration {
	raw, err := json.Marshal(value)
	if err != nil {
		// Plain data, except for what vendors have written: that came as JSON.
		panic(fmt.Sprintf("write %T as JSON: %v; conversion has to refuse what is no JSON", value, err))
	}
	return resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
		Driver: Carrier, Parameters: runtime.RawExtension{Raw: raw},
	}}
}

// carried reads what carry has written. It reports false if the configuration is
// another one.
func carried(config *resourceapi.DeviceConfiguration, into any) (bool, error) {
	if config.Opaque == nil || config.Opaque.Driver != Carrier {
		return false, nil
	}
	if err := json.Unmarshal(config.Opaque.Parameters.Raw, into); err != nil {
		return true, fmt.Errorf("read the configuration for %s: %w", Carrier, err)
	}
	return true, nil
}
