package builder

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// DeviceBuilder makes a Device.
type DeviceBuilder struct {
	device resourceapi.Device
}

// Device starts a device.
func Device(name string) *DeviceBuilder {
	return &DeviceBuilder{device: resourceapi.Device{Name: name}}
}

// Devices makes plain devices with the given names.
func Devices(names ...string) []*DeviceBuilder {
	result := make([]*DeviceBuilder, len(names))
	for i, name := range names {
		result[i] = Device(name)
	}
	return result
}

// NumberedDevices makes n plain devices: name-0, name-1 and so on.
func NumberedDevices(name string, n int) []*DeviceBuilder {
	result := make([]*DeviceBuilder, n)
	for i := range result {
		result[i] = Device(fmt.Sprintf("%s-%d", name, i))
	}
	return result
}

// Attr sets a string, int or bool attribute, or any given DeviceAttribute. An unqualified name belongs to the driver.
func (b *DeviceBuilder) Attr(name string, value any) *DeviceBuilder {
	if b.device.Attributes == nil {
		b.device.Attributes = make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute)
	}
	var attribute resourceapi.DeviceAttribute
	switch v := value.(type) {
	case string:
		attribute.StringValue = &v
	case int:
		attribute.IntValue = ptr.To(int64(v))
	case bool:
		attribute.BoolValue = &v
	case resourceapi.DeviceAttribute:
		attribute = v
	default:
		panic("attribute value must be a string, int, bool or DeviceAttribute")
	}
	b.device.Attributes[resourceapi.QualifiedName(name)] = attribute
	return b
}

// Version returns an attribute with a semantic version.
func Version(version string) resourceapi.DeviceAttribute {
	return resourceapi.DeviceAttribute{VersionValue: &version}
}

// Capacity sets a capacity.
func (b *DeviceBuilder) Capacity(name, quantity string) *DeviceBuilder {
	if b.device.Capacity == nil {
		b.device.Capacity = make(map[resourceapi.QualifiedName]resourceapi.DeviceCapacity)
	}
	b.device.Capacity[resourceapi.QualifiedName(name)] = resourceapi.DeviceCapacity{Value: resource.MustParse(quantity)}
	return b
}

// Policy sets the request policy of an existing capacity (KEP-5075).
func (b *DeviceBuilder) Policy(capacity string, policy resourceapi.CapacityRequestPolicy) *DeviceBuilder {
	changed := b.device.Capacity[resourceapi.QualifiedName(capacity)]
	changed.RequestPolicy = &policy
	b.device.Capacity[resourceapi.QualifiedName(capacity)] = changed
	return b
}

// Taint adds a taint as the driver publishes it.
func (b *DeviceBuilder) Taint(key string, effect resourceapi.DeviceTaintEffect) *DeviceBuilder {
	b.device.Taints = append(b.device.Taints, resourceapi.DeviceTaint{Key: key, Effect: effect})
	return b
}

// Consumes draws from a counter set: name, then pairs of counter and quantity.
func (b *DeviceBuilder) Consumes(set string, pairs ...string) *DeviceBuilder {
	b.device.ConsumesCounters = append(b.device.ConsumesCounters,
		resourceapi.DeviceCounterConsumption{CounterSet: set, Counters: counters(pairs)})
	return b
}

// OnNode makes the device local to a node (in a slice with PerDevice).
func (b *DeviceBuilder) OnNode(name string) *DeviceBuilder {
	b.device.NodeName = ptr.To(name)
	return b
}

// OnAllNodes makes the device reachable from everywhere (in a slice with PerDevice).
func (b *DeviceBuilder) OnAllNodes() *DeviceBuilder {
	b.device.AllNodes = ptr.To(true)
	return b
}

// OnLabeled makes the device reachable from labeled nodes (in a slice with PerDevice).
func (b *DeviceBuilder) OnLabeled(key, value string) *DeviceBuilder {
	b.device.NodeSelector = NodeSelector(key, value)
	return b
}

// Shared lets several claims use the device (KEP-5075).
func (b *DeviceBuilder) Shared() *DeviceBuilder {
	b.device.AllowMultipleAllocations = ptr.To(true)
	return b
}

// BindingCondition adds a condition that must be true before a pod gets bound (KEP-5007).
func (b *DeviceBuilder) BindingCondition(condition string) *DeviceBuilder {
	b.device.BindingConditions = append(b.device.BindingConditions, condition)
	return b
}

// BindsToNode restricts the device to the node that it is allocated for.
func (b *DeviceBuilder) BindsToNode() *DeviceBuilder {
	b.device.BindsToNode = ptr.To(true)
	return b
}

// BindingFailureCondition adds a condition that, if true, means that the device will not get ready (KEP-5007).
func (b *DeviceBuilder) BindingFailureCondition(condition string) *DeviceBuilder {
	b.device.BindingFailureConditions = append(b.device.BindingFailureConditions, condition)
	return b
}

// Modify makes any other change.
func (b *DeviceBuilder) Modify(change func(*resourceapi.Device)) *DeviceBuilder {
	change(&b.device)
	return b
}

func counters(pairs []string) map[string]resourceapi.Counter {
	result := make(map[string]resourceapi.Counter, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		result[pairs[i]] = resourceapi.Counter{Value: resource.MustParse(pairs[i+1])}
	}
	return result
}
