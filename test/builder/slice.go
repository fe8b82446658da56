package builder

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Driver is the default driver of slices.
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

// NodeSlice makes a slice for a single node: the slice and its pool have the node's name.
func NodeSlice(node string, devices ...*DeviceBuilder) *SliceBuilder {
	return Slice(node).OnNode(node).Devices(devices...)
}

// OfDriver sets the driver.
func (b *SliceBuilder) OfDriver(driver string) *SliceBuilder {
	b.slice.Spec.Driver = driver
	return b
}

// InPool sets the pool, its generation and its number of slices.
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

// PerDevice lets each device select its nodes.
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

// Part turns the slice into slice number index (from 0) of a pool that claims to have count slices, which need not
// all exist.
func (b *SliceBuilder) Part(index, count int64) *SliceBuilder {
	b.slice.Name = fmt.Sprintf("%s-%d", b.slice.Name, index)
	b.slice.Spec.Pool.ResourceSliceCount = count
	return b
}

// Generation turns the slice into one of a generation of its pool. A slice of a higher
// generation makes all those of lower ones obsolete.
func (b *SliceBuilder) Generation(generation int64) *SliceBuilder {
	b.slice.Name = fmt.Sprintf("%s-g%d", b.slice.Name, generation)
	b.slice.Spec.Pool.Generation = generation
	return b
}

// Modify makes any other change.
func (b *SliceBuilder) Modify(change func(*resourceapi.ResourceSlice)) *SliceBuilder {
	change(&b.slice)
	return b
}

// Obj returns the slice.
func (b *SliceBuilder) Obj() *resourceapi.ResourceSlice { return b.slice.DeepCopy() }
