package builder

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Class makes a DeviceClass with CEL selectors.
func Class(name string, expressions ...string) *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       resourceapi.DeviceClassSpec{Selectors: selectors(expressions)},
	}
}

// DriverClass makes the class of all devices of a driver, with the driver's name.
func DriverClass(driver string) *resourceapi.DeviceClass {
	return Class(driver, OfDriver(driver))
}

// OfDriver returns the CEL expression for all devices of a driver.
func OfDriver(driver string) string {
	return fmt.Sprintf("device.driver == %q", driver)
}

// WithConfig adds opaque parameters (JSON) for a driver to a class.
func WithConfig(class *resourceapi.DeviceClass, driver, parameters string) *resourceapi.DeviceClass {
	class.Spec.Config = append(class.Spec.Config, resourceapi.DeviceClassConfiguration{
		DeviceConfiguration: Opaque(driver, parameters),
	})
	return class
}

// Opaque makes a configuration of opaque parameters (JSON) for a driver.
func Opaque(driver, parameters string) resourceapi.DeviceConfiguration {
	return resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
		Driver: driver, Parameters: runtime.RawExtension{Raw: []byte(parameters)},
	}}
}

func selectors(expressions []string) []resourceapi.DeviceSelector {
	var result []resourceapi.DeviceSelector
	for _, expression := range expressions {
		result = append(result, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}})
	}
	return result
}

// TaintRule makes a rule that taints devices of a driver in one pool: a single
// one, or all of them if device is empty.
func TaintRule(name, driver, pool, device, key string, effect resourceapi.DeviceTaintEffect) *resourceapi.DeviceTaintRule {
	selector := &resourceapi.DeviceTaintSelector{Driver: &driver, Pool: &pool}
	if device != "" {
		selector.Device = &device
	}
	return &resourceapi.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.DeviceTaintRuleSpec{
			DeviceSelector: selector,
			Taint:          resourceapi.DeviceTaint{Key: key, Effect: effect},
		},
	}
}
