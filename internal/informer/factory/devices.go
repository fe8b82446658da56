package factory

import (
	"crypto/sha256"
	"maps"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
)

// attributeMap has the attributes of a device.
type attributeMap = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute

// smallMap is the number of entries up to which maps have the same size.
const smallMap = 8

// devices makes the devices of one slice share parts: first with the previous device, because that is often alike.
type devices struct {
	*contents
	before *resourceapi.Device
	// spare is an empty, unused map. Attributes are the largest part of devices, and each device needs a new map for
	// them.
	spare attributeMap
}

func (d *devices) share(device *resourceapi.Device) {
	if d.before != nil && sameCapacity(device.Capacity, d.before.Capacity) {
		device.Capacity = d.before.Capacity
	} else {
		device.Capacity = d.capacities.get(device.Capacity)
	}
	if d.before != nil && sameAttributes(device.Attributes, d.before.Attributes) {
		device.Attributes = d.before.Attributes
	} else {
		device.Attributes = d.attributes(device.Attributes)
	}
	d.before = device
}

// attributes returns the attributes with shared names, and shares texts with the previous device if these are equal.
// It does not share other texts: many are unique in the cluster, for example UUIDs, and remembering those would cost
// more than it saves. The result is a new map, because an assignment to an existing key may grow a map. The caller
// must not use the given map any more: only this device had it after decoding.
func (d *devices) attributes(of attributeMap) attributeMap {
	if len(of) == 0 {
		return nil
	}
	next := d.take(len(of))
	if d.before != nil {
		for name, like := range d.before.Attributes { // These names are shared.
			if value, found := of[name]; found {
				value.StringValue, value.VersionValue = textLike(value.StringValue, like.StringValue), textLike(value.VersionValue, like.VersionValue)
				next[name] = value
			}
		}
	}
	if len(next) < len(of) {
		for name, value := range of {
			if _, found := next[name]; !found {
				next[one(name)] = value
			}
		}
	}
	if len(of) <= smallMap {
		clear(of)
		d.spare = of
	}
	return next
}

// take returns an empty map for size attributes.
func (d *devices) take(size int) attributeMap {
	if size > smallMap || d.spare == nil {
		return make(attributeMap, size)
	}
	taken := d.spare
	d.spare = nil
	return taken
}

// textLike returns other if it points to the same text.
func textLike(text, other *string) *string {
	if text != nil && other != nil && *text == *other {
		return other
	}
	return text
}

func sameCapacity(a, b map[resourceapi.QualifiedName]resourceapi.DeviceCapacity) bool {
	return maps.EqualFunc(a, b, func(x, y resourceapi.DeviceCapacity) bool {
		return quantity.Equal(x.Value, y.Value) && x.Value.Format == y.Value.Format && (x.RequestPolicy == nil && y.RequestPolicy == nil ||
			quantity.DeepEqual(x.RequestPolicy, y.RequestPolicy))
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

// capacityMap has the capacities of a device.
type capacityMap = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity

// capacityBytes limits the memory of known capacities. Beyond it, the cache starts empty again, and later devices
// share only with each other. Go has no weak pointers to maps, so entries stay when their last device is gone.
const capacityBytes = 8 << 20

// capacities deduplicates the capacities of devices. It is safe for concurrent use.
type capacities struct {
	most, taken int
	mutex       sync.Mutex
	known       map[digest]capacityMap
}

// get returns a shared map for devices with equal capacities.
func (c *capacities) get(of capacityMap) capacityMap {
	if len(of) == 0 {
		return nil
	}
	encoded, err := (&resourceapi.Device{Capacity: of}).Marshal()
	if err != nil {
		return of
	}
	key := sha256.Sum256(encoded)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if found, ok := c.known[key]; ok {
		return found
	}
	size := capacitySize(len(encoded))
	if c.known == nil || c.taken+size > c.most {
		c.known, c.taken = make(map[digest]capacityMap), 0
	}
	if size <= c.most {
		c.known[key] = of
		c.taken += size
	}
	return of
}

// capacitySize returns an upper bound of the memory of capacities with an encoding of so many bytes: the shortest
// part, a quantity of one digit, grows from 5 bytes to 64.
func capacitySize(encoded int) int { return 16*encoded + 1024 }
