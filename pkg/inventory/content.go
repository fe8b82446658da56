package inventory

import (
	"hash/maphash"
	"math/bits"
	"reflect"
	"slices"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/memo"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
)

// Content stands for what CEL expressions and constraints can see of a list of devices: the driver
// and, for each device, its attributes, its capacities (with request policies) and whether it can
// be allocated several times. They cannot see names, counters, taints and nodes.
//
// Slices of a store with equal content share one Content, so that values derived from one slice
// serve all: nodes with the same hardware, and a slice that was rewritten with other metadata.
type Content struct {
	// Subject caches what depends on users' requests, by position of the device in the slice or in
	// the pool. Its size is bounded.
	memo.Subject
	// Others caches what else was derived from all devices of a pool. These are few entries.
	Others Cache

	hash uint64
	gone atomic.Bool
	// The other fields belong to contents. devices are those of the slice that took the content
	// last, so that the devices of an older version of the slice can be freed.
	driver  string
	devices []resourceapi.Device
	users   int
}

// Gone reports whether no slice has the content any more. It never becomes false again.
func (c *Content) Gone() bool { return c.gone.Load() }

// contents finds the Content of each slice of a store. It needs the store's mutex. It counts the
// slices that use a Content and drops it with the last one, without relying on the garbage
// collector.
type contents struct {
	seed maphash.Seed
	// byHash has one Content for each hash. Another Content with the same hash is not shared.
	byHash map[uint64]*Content
}

func newContents() contents {
	return contents{seed: maphash.MakeSeed(), byHash: make(map[uint64]*Content)}
}

// take returns the Content of a slice, which uses it until release. before is the slice's former
// Content, or nil: most updates do not change it.
func (c *contents) take(slice *resourceapi.ResourceSlice, before *Content) *Content {
	driver, devices := slice.Spec.Driver, slice.Spec.Devices
	content := before
	if content == nil || !content.is(driver, devices) {
		hash := c.hashOf(driver, devices)
		content = c.byHash[hash]
		if content == nil || !content.is(driver, devices) {
			content = &Content{hash: hash, driver: driver}
			if c.byHash[hash] == nil {
				c.byHash[hash] = content
			}
		}
	}
	content.devices = devices
	content.users++
	return content
}

func (c *Content) is(driver string, devices []resourceapi.Device) bool {
	return c.driver == driver && sameDevices(c.devices, devices)
}

// release undoes a take.
func (c *contents) release(content *Content) {
	content.users--
	if content.users > 0 {
		return
	}
	content.gone.Store(true)
	if c.byHash[content.hash] == content {
		delete(c.byHash, content.hash)
	}
}

func sameDevices(a, b []resourceapi.Device) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !sameContent(&a[i], &b[i]) {
			return false
		}
	}
	return true
}

// sameContent reports whether expressions and constraints see two devices alike. It may return
// false for equal quantities that are written differently.
func sameContent(a, b *resourceapi.Device) bool {
	if !samePointees(a.AllowMultipleAllocations, b.AllowMultipleAllocations) ||
		len(a.Attributes) != len(b.Attributes) || len(a.Capacity) != len(b.Capacity) {
		return false
	}
	for name, attribute := range a.Attributes {
		if other, found := b.Attributes[name]; !found || !sameAttribute(&attribute, &other) {
			return false
		}
	}
	for name, capacity := range a.Capacity {
		// Values are compared as they are stored: an expression can tell 1 from 1000m.
		other, found := b.Capacity[name]
		if !found || capacity.Value != other.Value {
			return false
		}
		if capacity.RequestPolicy != other.RequestPolicy && !reflect.DeepEqual(capacity.RequestPolicy, other.RequestPolicy) {
			return false
		}
	}
	return true
}

func sameAttribute(a, b *resourceapi.DeviceAttribute) bool {
	return samePointees(a.StringValue, b.StringValue) && samePointees(a.IntValue, b.IntValue) &&
		samePointees(a.BoolValue, b.BoolValue) && samePointees(a.VersionValue, b.VersionValue) &&
		sameLists(a.StringValues, b.StringValues) && sameLists(a.IntValues, b.IntValues) &&
		sameLists(a.BoolValues, b.BoolValues) && sameLists(a.VersionValues, b.VersionValues)
}

func samePointees[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// sameLists distinguishes an empty list from nil, as CEL does.
func sameLists[T comparable](a, b []T) bool {
	return (a == nil) == (b == nil) && slices.Equal(a, b)
}

// hashOf returns equal hashes for equal content. The order of maps does not matter.
func (c *contents) hashOf(driver string, devices []resourceapi.Device) uint64 {
	hash := mix(maphash.String(c.seed, driver), uint64(len(devices)))
	for i := range devices {
		device := &devices[i]
		var sum uint64
		for name, attribute := range device.Attributes {
			sum += mix(maphash.String(c.seed, string(name)), c.hashOfAttribute(&attribute))
		}
		for name, capacity := range device.Capacity {
			sum += mix(maphash.String(c.seed, string(name)), uint64(quantity.Value(capacity.Value)))
		}
		hash = mix(hash, sum)
	}
	return hash
}

// hashOfAttribute leaves out values that are hardly ever the only difference.
func (c *contents) hashOfAttribute(a *resourceapi.DeviceAttribute) uint64 {
	switch {
	case a.StringValue != nil:
		return maphash.String(c.seed, *a.StringValue)
	case a.VersionValue != nil:
		return maphash.String(c.seed, *a.VersionValue)
	case a.IntValue != nil:
		return uint64(*a.IntValue)
	case a.BoolValue != nil && *a.BoolValue:
		return 1
	}
	var hash uint64
	for _, text := range a.StringValues {
		hash = mix(hash, maphash.String(c.seed, text))
	}
	for _, number := range a.IntValues {
		hash = mix(hash, uint64(number))
	}
	return hash
}

// mix joins two numbers, in this order, into one that depends on all their bits.
func mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a^0x9e3779b97f4a7c15, b^0xd1b54a32d192ed03)
	return high ^ low ^ bits.RotateLeft64(a, 17)
}
