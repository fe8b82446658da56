package workload

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Class makes a device class whose devices satisfy all CEL expressions.
func Class(name string, where ...string) *resourceapi.DeviceClass {
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, expression := range where {
		class.Spec.Selectors = append(class.Spec.Selectors, celSelector(expression))
	}
	return class
}

// DriverClass makes the class of all devices of a driver, with the driver's name.
func DriverClass(driver string) *resourceapi.DeviceClass {
	return Class(driver, OfDriver(driver))
}

// OfDriver is the CEL expression for all devices of a driver.
func OfDriver(driver string) string {
	return fmt.Sprintf("device.driver == %q", driver)
}

// WithConfig adds opaque parameters (JSON) for a driver to a class.
func WithConfig(class *resourceapi.DeviceClass, driver, parameters string) *resourceapi.DeviceClass {
	class.Spec.Config = append(class.Spec.Config, resourceapi.DeviceClassConfiguration{
		DeviceConfiguration: opaque(driver, parameters),
	})
	return class
}

// TaintRule makes a rule that taints devices of a driver in one pool: a single
// one, or all of them if device is empty.
func TaintRule(name, driver, pool, device, key string, effect resourceapi.DeviceTaintEffect) *resourceapi.DeviceTaintRule {
	selector := &resourceapi.DeviceTaintSelector{Driver: &driver, Pool: &pool}
	if device != "" {
		selector.Device = ptr.To(device)
	}
	return &resourceapi.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.DeviceTaintRuleSpec{
			DeviceSelector: selector,
			Taint:          resourceapi.DeviceTaint{Key: key, Effect: effect},
		},
	}
}
