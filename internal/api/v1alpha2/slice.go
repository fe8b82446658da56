package v1alpha2

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Kind is the type of an attribute. In the hub it is the domain of the attribute's name; in expressions it is part of
// the variable: attributes.int.
type Kind string

// All kinds. Quantities are capacities in the hub, the others are attributes.
const (
	KindQuantity    Kind = "quantity"
	KindBool        Kind = "bool"
	KindInt         Kind = "int"
	KindIntSlice    Kind = "intslice"
	KindString      Kind = "string"
	KindStringSlice Kind = "stringslice"
	KindVersion     Kind = "version"
)

// Qualified returns the name of an attribute or capacity in the hub.
func (k Kind) Qualified(name string) resourceapi.QualifiedName {
	return resourceapi.QualifiedName(string(k) + "/" + name)
}

// SliceToHub converts a slice. The result shares data with the slice.
//
// The node serves as the pool, whose number of slices is unknown. A slice without a node is for no node, as in 1.30.
func SliceToHub(slice *ResourceSlice) (*resourceapi.ResourceSlice, error) {
	hub := &resourceapi.ResourceSlice{
		ObjectMeta: slice.ObjectMeta,
		Spec: resourceapi.ResourceSliceSpec{
			Driver: slice.DriverName,
			Pool:   resourceapi.ResourcePool{Name: slice.NodeName, Generation: 1, ResourceSliceCount: inventory.AnyCount},
		},
	}
	if slice.NodeName != "" {
		hub.Spec.NodeName = &slice.NodeName
	}
	if slice.NamedResources == nil {
		return hub, nil
	}
	hub.Spec.Devices = make([]resourceapi.Device, 0, len(slice.NamedResources.Instances))
	for i := range slice.NamedResources.Instances {
		device, err := deviceToHub(&slice.NamedResources.Instances[i])
		if err != nil {
			return nil, fmt.Errorf("convert ResourceSlice %s from v1alpha2: %w", klog.KObj(slice), err)
		}
		hub.Spec.Devices = append(hub.Spec.Devices, *device)
	}
	return hub, nil
}

func deviceToHub(instance *NamedResourcesInstance) (*resourceapi.Device, error) {
	device := &resourceapi.Device{Name: instance.Name}
	for i := range instance.Attributes {
		attribute := &instance.Attributes[i]
		if quantity := attribute.QuantityValue; quantity != nil {
			if device.Capacity == nil {
				device.Capacity = make(map[resourceapi.QualifiedName]resourceapi.DeviceCapacity)
			}
			device.Capacity[KindQuantity.Qualified(attribute.Name)] = resourceapi.DeviceCapacity{Value: *quantity}
			continue
		}
		kind, value := attributeToHub(attribute)
		if value == nil {
			return nil, fmt.Errorf("attribute %s of %s has no value; it may use an API that this scheduler does not know", attribute.Name, instance.Name)
		}
		if device.Attributes == nil {
			device.Attributes = make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute, len(instance.Attributes))
		}
		device.Attributes[kind.Qualified(attribute.Name)] = *value
	}
	return device, nil
}

// attributeToHub returns nil if no attribute of the hub can hold the value. An empty list is not nil in the hub.
func attributeToHub(attribute *NamedResourcesAttribute) (Kind, *resourceapi.DeviceAttribute) {
	switch {
	case attribute.BoolValue != nil:
		return KindBool, &resourceapi.DeviceAttribute{BoolValue: attribute.BoolValue}
	case attribute.IntValue != nil:
		return KindInt, &resourceapi.DeviceAttribute{IntValue: attribute.IntValue}
	case attribute.IntSliceValue != nil:
		return KindIntSlice, &resourceapi.DeviceAttribute{IntValues: notNil(attribute.IntSliceValue.Ints)}
	case attribute.StringValue != nil:
		return KindString, &resourceapi.DeviceAttribute{StringValue: attribute.StringValue}
	case attribute.StringSliceValue != nil:
		return KindStringSlice, &resourceapi.DeviceAttribute{StringValues: notNil(attribute.StringSliceValue.Strings)}
	case attribute.VersionValue != nil:
		return KindVersion, &resourceapi.DeviceAttribute{VersionValue: attribute.VersionValue}
	}
	return "", nil
}

func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
