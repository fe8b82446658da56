package slim

import (
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// device has a device share what it can with others: with the one before it in its slice first, because that is often alike.
func (c *contents) device(device, before *resourceapi.Device) {
	if before != nil && sameCapacity(device.Capacity, before.Capacity) {
		device.Capacity = before.Capacity
	} else {
		device.Capacity = c.capacity(device.Capacity)
	}
	if before != nil && sameAttributes(device.Attributes, before.Attributes) {
		device.Attributes = before.Attributes
		return
	}
	device.Attributes = attributes(device.Attributes, before)
}

// attributes returns attributes whose names are shared, and whose texts are if the device before has the same. Other texts are not looked
// for: many are there once in the cluster, such as UUIDs, and to remember those would cost more than it saves. (It is another map because
// to assign to a key that is there may have a map grow.)
func attributes(of map[resourceapi.QualifiedName]resourceapi.DeviceAttribute, before *resourceapi.Device) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	if len(of) == 0 {
		return nil
	}
	next := make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute, len(of))
	if before != nil {
		for name, like := range before.Attributes { // These names are shared.
			if value, found := of[name]; found {
				value.StringValue, value.VersionValue = textLike(value.StringValue, like.StringValue), textLike(value.VersionValue, like.VersionValue)
				next[name] = value
			}
		}
	}
	if len(next) == len(of) {
		return next
	}
	for name, value := range of {
		if _, found := next[name]; !found {
			next[one(name)] = value
		}
	}
	return next
}

// textLike returns a pointer to the same text: the other one if that has it.
func textLike(text, other *string) *string {
	if text != nil && other != nil && *text == *other {
		return other
	}
	return text
}

// capacity returns capacities that all devices share which have the same.
func (c *contents) capacity(of map[resourceapi.QualifiedName]resourceapi.DeviceCapacity) map[resourceapi.QualifiedName]resourceapi.DeviceCapacity {
	if len(of) == 0 {
		return nil
	}
	return c.capacities.get(&resourceapi.Device{Capacity: of}, func() map[resourceapi.QualifiedName]resourceapi.DeviceCapacity { return of })
}

func sameCapacity(a, b map[resourceapi.QualifiedName]resourceapi.DeviceCapacity) bool {
	return maps.EqualFunc(a, b, func(x, y resourceapi.DeviceCapacity) bool {
		return x.Value.Equal(y.Value) && x.Value.Format == y.Value.Format && (x.RequestPolicy == nil && y.RequestPolicy == nil ||
			apiequality.Semantic.DeepEqual(x.RequestPolicy, y.RequestPolicy))
	})
}

func sameAttributes(a, b map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) bool {
	return maps.EqualFunc(a, b, sameAttribute)
}

func sameAttribute(x, y resourceapi.DeviceAttribute) bool {
	return same(x.IntValue, y.IntValue) && same(x.BoolValue, y.BoolValue) && same(x.StringValue, y.StringValue) && same(x.VersionValue, y.VersionValue) &&
		slices.Equal(x.IntValues, y.IntValues) && slices.Equal(x.BoolValues, y.BoolValues) &&
		slices.Equal(x.StringValues, y.StringValues) && slices.Equal(x.VersionValues, y.VersionValues)
}

func same[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
