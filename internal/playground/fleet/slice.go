package fleet

import (
	"crypto/sha256"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// LocalSlice publishes the only slice of a pool whose devices belong to one
// node. As drivers do, the pool has the node's name.
func LocalSlice(driver, node string, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	slice := newSlice(driver, node, devices)
	slice.Spec.NodeName = &node
	return slice
}

// LabelledNodesSlice publishes the only slice of a pool that every node with
// the label reaches, such as network-attached devices of a rack.
func LabelledNodesSlice(driver, pool, label, value string, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	slice := newSlice(driver, pool, devices)
	slice.Spec.NodeSelector = nodesWithLabel(label, value)
	return slice
}

// AllNodesSlice publishes the only slice of a pool that every node reaches.
func AllNodesSlice(driver, pool string, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	slice := newSlice(driver, pool, devices)
	slice.Spec.AllNodes = ptr.To(true)
	return slice
}

// PerDeviceSlice publishes the only slice of a pool in which each device says
// itself which nodes reach it: see OnNode, OnLabelledNodes and OnAllNodes.
func PerDeviceSlice(driver, pool string, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	slice := newSlice(driver, pool, devices)
	slice.Spec.PerDeviceNodeSelection = ptr.To(true)
	return slice
}

// Part turns a slice into slice number index (from 0) of a pool that says it
// has count slices, which need not all exist.
func Part(slice *resourceapi.ResourceSlice, index, count int64) *resourceapi.ResourceSlice {
	slice.Name = fmt.Sprintf("%s-%d", slice.Name, index)
	slice.Spec.Pool.ResourceSliceCount = count
	return slice
}

// Generation turns a slice into one of the given pool generation. A slice of a
// higher generation makes all those of lower ones obsolete.
func Generation(slice *resourceapi.ResourceSlice, generation int64) *resourceapi.ResourceSlice {
	slice.Name = fmt.Sprintf("%s-g%d", slice.Name, generation)
	slice.Spec.Pool.Generation = generation
	return slice
}

// OnNode lets one node reach a device of a PerDeviceSlice.
func OnNode(device resourceapi.Device, node string) resourceapi.Device {
	device.NodeName = &node
	return device
}

// OnLabelledNodes lets the nodes with a label reach a device of a PerDeviceSlice.
func OnLabelledNodes(device resourceapi.Device, label, value string) resourceapi.Device {
	device.NodeSelector = nodesWithLabel(label, value)
	return device
}

// OnAllNodes lets every node reach a device of a PerDeviceSlice.
func OnAllNodes(device resourceapi.Device) resourceapi.Device {
	device.AllNodes = ptr.To(true)
	return device
}

// Tainted adds a taint to a device, as a driver does that finds it unhealthy.
func Tainted(device resourceapi.Device, key, value string, effect resourceapi.DeviceTaintEffect) resourceapi.Device {
	device.Taints = append(device.Taints, resourceapi.DeviceTaint{Key: key, Value: value, Effect: effect})
	return device
}

func newSlice(driver, pool string, devices []resourceapi.Device) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: pool + "-" + driver},
		Spec: resourceapi.ResourceSliceSpec{
			Driver:  driver,
			Pool:    resourceapi.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: 1},
			Devices: devices,
		},
	}
}

func nodesWithLabel(label, value string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: label, Operator: corev1.NodeSelectorOpIn, Values: []string{value},
		}},
	}}}
}

func stringAttribute(value string) resourceapi.DeviceAttribute {
	return resourceapi.DeviceAttribute{StringValue: &value}
}

func intAttribute(value int) resourceapi.DeviceAttribute {
	return resourceapi.DeviceAttribute{IntValue: ptr.To(int64(value))}
}

func versionAttribute(value string) resourceapi.DeviceAttribute {
	return resourceapi.DeviceAttribute{VersionValue: &value}
}

func capacity(quantity string) resourceapi.DeviceCapacity {
	return resourceapi.DeviceCapacity{Value: resource.MustParse(quantity)}
}

// deviceUUID returns an identifier in UUID form that depends only on the place
// of the device.
func deviceUUID(prefix, pool string, index int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", prefix, pool, index))
	return fmt.Sprintf("%s-%x-%x-%x-%x-%x", prefix, sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
