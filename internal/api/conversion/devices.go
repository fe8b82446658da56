package conversion

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha3"
)

func alpha3ClassToHub(in *v1alpha3.DeviceClass, out *resourceapi.DeviceClass) error {
	out.ObjectMeta = in.ObjectMeta
	out.Spec = resourceapi.DeviceClassSpec{Selectors: in.Spec.Selectors, Config: in.Spec.Config}
	SetAlphaClass(out, AlphaClass{SuitableNodes: in.Spec.SuitableNodes})
	return nil
}

func alpha3ClassFromHub(in *resourceapi.DeviceClass, out *v1alpha3.DeviceClass) error {
	out.ObjectMeta = in.ObjectMeta
	DropAlpha(out)
	out.Spec = v1alpha3.DeviceClassSpec{Selectors: in.Spec.Selectors, Config: in.Spec.Config, SuitableNodes: AlphaClassOf(in).SuitableNodes}
	return nil
}

// alpha3SliceToHub omits devices that are not basic: they are unknown, so they must not be allocated.
func alpha3SliceToHub(in *v1alpha3.ResourceSlice, out *resourceapi.ResourceSlice) error {
	out.ObjectMeta = in.ObjectMeta
	out.Spec = resourceapi.ResourceSliceSpec{Driver: in.Spec.Driver, Pool: in.Spec.Pool, NodeSelector: in.Spec.NodeSelector,
		PerDeviceNodeSelection: in.Spec.PerDeviceNodeSelection, SharedCounters: in.Spec.SharedCounters}
	if nodeName := in.Spec.NodeName; nodeName != "" {
		out.Spec.NodeName = &nodeName
	}
	if allNodes := in.Spec.AllNodes; allNodes {
		out.Spec.AllNodes = &allNodes
	}
	for i := range in.Spec.Devices {
		if device := &in.Spec.Devices[i]; device.Basic != nil {
			out.Spec.Devices = append(out.Spec.Devices, resourceapi.Device{
				Name:             device.Name,
				Attributes:       mapped(device.Basic.Attributes, alpha3AttributeToHub),
				Capacity:         mapped(device.Basic.Capacity, alpha3CapacityToHub),
				ConsumesCounters: device.Basic.ConsumesCounters,
				NodeName:         device.Basic.NodeName,
				NodeSelector:     device.Basic.NodeSelector,
				AllNodes:         device.Basic.AllNodes,
				Taints:           device.Basic.Taints,
			})
		}
	}
	return nil
}

func alpha3SliceFromHub(in *resourceapi.ResourceSlice, out *v1alpha3.ResourceSlice) error {
	out.ObjectMeta = in.ObjectMeta
	out.Spec = v1alpha3.ResourceSliceSpec{
		Driver:       in.Spec.Driver,
		Pool:         in.Spec.Pool,
		NodeName:     ptr.Deref(in.Spec.NodeName, ""),
		NodeSelector: in.Spec.NodeSelector,
		AllNodes:     ptr.Deref(in.Spec.AllNodes, false),
		Devices:      make([]v1alpha3.Device, 0, len(in.Spec.Devices)), // The field is required.

		PerDeviceNodeSelection: in.Spec.PerDeviceNodeSelection,
		SharedCounters:         in.Spec.SharedCounters,
	}
	for i := range in.Spec.Devices {
		device := &in.Spec.Devices[i]
		out.Spec.Devices = append(out.Spec.Devices, v1alpha3.Device{Name: device.Name, Basic: &v1alpha3.BasicDevice{
			Attributes:       mapped(device.Attributes, alpha3AttributeFromHub),
			Capacity:         mapped(device.Capacity, alpha3CapacityFromHub),
			ConsumesCounters: device.ConsumesCounters,
			NodeName:         device.NodeName,
			NodeSelector:     device.NodeSelector,
			AllNodes:         device.AllNodes,
			Taints:           device.Taints,
		}})
	}
	return nil
}

// alpha3RuleToHub returns a rule that selects no devices for one that selects them by a class or by expressions. v1
// cannot express that, and without these fields the rule would select many more devices, perhaps all.
func alpha3RuleToHub(in *v1alpha3.DeviceTaintRule, out *resourceapi.DeviceTaintRule) error {
	out.ObjectMeta, out.Spec.Taint, out.Status = in.ObjectMeta, in.Spec.Taint, in.Status
	selector := in.Spec.DeviceSelector
	switch {
	case selector == nil:
	case selector.DeviceClassName != nil || selector.Selectors != nil:
		klog.Background().Info("This DeviceTaintRule has no effect on scheduling: it selects devices in a way that only v1alpha3 knows. Use driver, pool and device",
			"rule", klog.KObj(in))
	default:
		out.Spec.DeviceSelector = &selector.DeviceTaintSelector
	}
	return nil
}

func alpha3RuleFromHub(in *resourceapi.DeviceTaintRule, _ *v1alpha3.DeviceTaintRule) error {
	return readOnly("devicetaintrules", in.Name, "v1alpha3")
}

func alpha3AttributeToHub(in v1alpha3.DeviceAttribute) resourceapi.DeviceAttribute {
	return resourceapi.DeviceAttribute{IntValue: in.IntValue, BoolValue: in.BoolValue, StringValue: in.StringValue, VersionValue: in.VersionValue}
}

func alpha3AttributeFromHub(in resourceapi.DeviceAttribute) v1alpha3.DeviceAttribute {
	return v1alpha3.DeviceAttribute{IntValue: in.IntValue, BoolValue: in.BoolValue, StringValue: in.StringValue, VersionValue: in.VersionValue}
}

func alpha3CapacityToHub(in resource.Quantity) resourceapi.DeviceCapacity {
	return resourceapi.DeviceCapacity{Value: in}
}

func alpha3CapacityFromHub(in resourceapi.DeviceCapacity) resource.Quantity { return in.Value }

// mapped converts a map; nil stays nil.
func mapped[K comparable, A, B any](in map[K]A, convert func(A) B) map[K]B {
	if in == nil {
		return nil
	}
	out := make(map[K]B, len(in))
	for k, v := range in {
		out[k] = convert(v)
	}
	return out
}
