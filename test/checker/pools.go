package checker

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"
)

type poolID struct{ driver, name string }

func (id poolID) String() string { return id.driver + "/" + id.name }

type deviceID struct {
	pool poolID
	name string
}

func (id deviceID) String() string { return id.pool.String() + "/" + id.name }

func (id deviceID) compare(other deviceID) int {
	return cmp.Or(id.pool.compare(other.pool), cmp.Compare(id.name, other.name))
}

func (id poolID) compare(other poolID) int {
	return cmp.Or(cmp.Compare(id.driver, other.driver), cmp.Compare(id.name, other.name))
}

// deviceOf returns the ID of an allocated device.
func deviceOf(result *resourceapi.DeviceRequestAllocationResult) deviceID {
	return deviceID{pool: poolID{driver: result.Driver, name: result.Pool}, name: result.Device}
}

// pool holds the devices and counters in the slices of the current (highest) generation.
type pool struct {
	id         poolID
	generation int64
	devices    map[string]publishedDevice
	// counters are the shared counters of all slices: set, counter, value.
	counters map[string]map[string]resource.Quantity
}

type publishedDevice struct {
	*resourceapi.Device
	slice *resourceapi.ResourceSlice
}

// gatherPools combines slices into pools. Slices of older generations are ignored, as
// in the API.
func gatherPools(published []*resourceapi.ResourceSlice) ([]*pool, map[poolID]*pool) {
	named := map[poolID]*pool{}
	for _, slice := range published {
		id := poolID{driver: slice.Spec.Driver, name: slice.Spec.Pool.Name}
		p := named[id]
		if p == nil || p.generation < slice.Spec.Pool.Generation {
			p = &pool{
				id:         id,
				generation: slice.Spec.Pool.Generation,
				devices:    map[string]publishedDevice{},
				counters:   map[string]map[string]resource.Quantity{},
			}
			named[id] = p
		}
		if p.generation == slice.Spec.Pool.Generation {
			p.add(slice)
		}
	}
	pools := make([]*pool, 0, len(named))
	for _, p := range named {
		pools = append(pools, p)
	}
	slices.SortFunc(pools, func(a, b *pool) int { return a.id.compare(b.id) })
	return pools, named
}

func (p *pool) add(slice *resourceapi.ResourceSlice) {
	for i := range slice.Spec.Devices {
		device := &slice.Spec.Devices[i]
		p.devices[device.Name] = publishedDevice{Device: device, slice: slice}
	}
	for _, set := range slice.Spec.SharedCounters {
		values := map[string]resource.Quantity{}
		for name, counter := range set.Counters {
			values[name] = counter.Value
		}
		p.counters[counterSetOf(slice, set.Name)] = values
	}
}

// counterSetOf returns a name for a counter set of a slice that is unique in the pool. If slices have
// counters and devices at once (Kubernetes 1.33 and 1.34), a set belongs to its slice.
func counterSetOf(slice *resourceapi.ResourceSlice, name string) string {
	if len(slice.Spec.SharedCounters) > 0 && len(slice.Spec.Devices) > 0 {
		return slice.Name + "/" + name
	}
	return name
}

// device returns the published device.
func (s *snapshot) device(id deviceID) (publishedDevice, bool) {
	p := s.poolNamed[id.pool]
	if p == nil {
		return publishedDevice{}, false
	}
	device, found := p.devices[id.name]
	return device, found
}

// shareable reports whether the device may have more than one holder.
func (d publishedDevice) shareable() bool {
	return ptr.Deref(d.AllowMultipleAllocations, false)
}

// reachableFrom reports whether the device can be used on the node.
func (d publishedDevice) reachableFrom(node *corev1.Node) bool {
	spec := &d.slice.Spec
	if ptr.Deref(spec.PerDeviceNodeSelection, false) {
		return reachable(node, d.NodeName, d.AllNodes, d.NodeSelector)
	}
	return reachable(node, spec.NodeName, spec.AllNodes, spec.NodeSelector)
}

func reachable(node *corev1.Node, nodeName *string, allNodes *bool, selector *corev1.NodeSelector) bool {
	switch {
	case ptr.Deref(nodeName, "") != "":
		return node.Name == *nodeName
	case ptr.Deref(allNodes, false):
		return true
	case selector != nil:
		return selects(selector, node)
	default:
		return false
	}
}

// selects reports whether the selector is valid and matches the node.
func selects(selector *corev1.NodeSelector, node *corev1.Node) bool {
	compiled, err := nodeaffinity.NewNodeSelector(selector)
	return err == nil && compiled.Match(node)
}
