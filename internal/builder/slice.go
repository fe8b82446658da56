package builder

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Driver is the driver of slices for which no other is named.
const Driver = "gpu.example.com"

// SliceBuilder makes a ResourceSlice.
type SliceBuilder struct {
	slice resourceapi.ResourceSlice
}

// Slice starts a ResourceSlice of Driver. Its pool has the same name, generation
// 1 and consists of this slice only.
func Slice(name string) *SliceBuilder {
	return &SliceBuilder{slice: resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: Driver,
			Pool:   resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1},
		},
	}}
}

// NodeSlice is a slice for a single node: the slice and its pool are named after it.
func NodeSlice(node string, devices ...*DeviceBuilder) *SliceBuilder {
	return Slice(node).OnNode(node).Devices(devices...)
}

// OfDriver sets the driver.
func (b *SliceBuilder) OfDriver(driver string) *SliceBuilder {
	b.slice.Spec.Driver = driver
	return b
}

// InPool sets the pool, its generation and how many slices it has.
func (b *SliceBuilder) InPool(name string, generation, sliceCount int64) *SliceBuilder {
	b.slice.Spec.Pool = resourceapi.ResourcePool{Name: name, Generation: generation, ResourceSliceCount: sliceCount}
	return b
}

// OnNode makes the slice local to a node.
func (b *SliceBuilder) OnNode(name string) *SliceBuilder {
	b.slice.Spec.NodeName = ptr.To(name)
	return b
}

// OnAllNodes makes the slice reachable from everywhere.
func (b *SliceBuilder) OnAllNodes() *SliceBuilder {
	b.slice.Spec.AllNodes = ptr.To(true)
	return b
}

// OnLabeled makes the slice reachable from nodes with a label.
func (b *SliceBuilder) OnLabeled(key, value string) *SliceBuilder {
	b.slice.Spec.NodeSelector = NodeSelector(key, value)
	return b
}

// PerDevice lets each device say which nodes it is for.
func (b *SliceBuilder) PerDevice() *SliceBuilder {
	b.slice.Spec.PerDeviceNodeSelection = ptr.To(true)
	return b
}

// Devices appends devices.
func (b *SliceBuilder) Devices(devices ...*DeviceBuilder) *SliceBuilder {
	for _, device := range devices {
		b.slice.Spec.Devices = append(b.slice.Spec.Devices, device.device)
	}
	return b
}

// Counters appends a counter set: name, then pairs of counter and quantity.
func (b *SliceBuilder) Counters(set string, pairs ...string) *SliceBuilder {
	b.slice.Spec.SharedCounters = append(b.slice.Spec.SharedCounters,
		resourceapi.CounterSet{Name: set, Counters: counters(pairs)})
	return b
}

// Modify changes what no method above does.
func (b *SliceBuilder) Modify(change func(*resourceapi.ResourceSlice)) *SliceBuilder {
	change(&b.slice)
	return b
}

// Obj returns the slice.
func (b *SliceBuilder) Obj() *resourceapi.ResourceSlice { return b.slice.DeepCopy() }

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

// Attr sets a string, int or bool attribute. An unqualified name belongs to the driver.
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

// Capacity sets a capacity.
func (b *DeviceBuilder) Capacity(name, quantity string) *DeviceBuilder {
	if b.device.Capacity == nil {
		b.device.Capacity = make(map[resourceapi.QualifiedName]resourceapi.DeviceCapacity)
	}
	b.device.Capacity[resourceapi.QualifiedName(name)] = resourceapi.DeviceCapacity{Value: resource.MustParse(quantity)}
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

// BindsToNode makes the device useable only on the node that it is allocated for.
func (b *DeviceBuilder) BindsToNode() *DeviceBuilder {
	b.device.BindsToNode = ptr.To(true)
	return b
}

// Modify changes what no method above does.
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

// NodeSelector selects nodes with a label.
func NodeSelector(key, value string) *v1.NodeSelector {
	return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{
			Key: key, Operator: v1.NodeSelectorOpIn, Values: []string{value},
		}},
	}}}
}

// Node makes a node; labels are pairs of key and value.
func Node(name string, labels ...string) *v1.Node {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}}
	for i := 0; i < len(labels); i += 2 {
		node.Labels[labels[i]] = labels[i+1]
	}
	return node
}
