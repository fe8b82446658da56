package hostile

import (
	"fmt"
	"math"
	"math/rand"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// generator makes hostile objects. The same seed makes the same ones.
type generator struct {
	rng *rand.Rand
	// prefix begins the names of everything that is not namespaced.
	prefix string
	nodes  []string
	made   int
}

func pick[T any](g *generator, choices ...T) T { return choices[g.rng.Intn(len(choices))] }

// name makes a new name of the given length or a little more.
func (g *generator) name(length int) string {
	g.made++
	name := fmt.Sprintf("%s-%d", g.prefix, g.made)
	return name + strings.Repeat("x", max(0, length-len(name)))
}

// text is an attribute value of at most 64 bytes; what it looks like is bad luck for
// whoever pads, lowers, splits or prints it.
func (g *generator) text() string {
	return pick(g,
		strings.Repeat("\u00df", 32), strings.Repeat("\U0001F600", 16), "e\u0301\u0323"+strings.Repeat("\u0300", 28),
		"\u202eabc\u202c", "%s%n%d", "${jndi}", "'\"`\\", "a\nb\tc\x00d", " ", strings.Repeat("a", 64), "\u0130\u0131", "\ufffd", "\u2028")
}

// seldom chooses the first for most objects: one mistake is enough to be rejected.
func seldom[T any](g *generator, sound T, mistakes ...T) T {
	if g.rng.Intn(8) == 0 {
		return pick(g, mistakes...)
	}
	return sound
}

// quantity is an amount that does not fit into a number, or hardly.
func (g *generator) quantity() resource.Quantity {
	if g.rng.Intn(1000) == 0 {
		return resource.MustParse(rawQuantity)
	}
	return resource.MustParse(pick(g, "9223372036854775807", "9223372036854775808",
		"1n", "0", "-0", "8Ei", "7.999999999Ei", "1e-1000", "999999999999999999999999", "1e18", "0.1m", "1"))
}

// attributes are as many as a device may have, of all types.
func (g *generator) attributes(n int) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	attributes := make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute, n)
	for i := range n {
		name := resourceapi.QualifiedName(fmt.Sprintf("a%d", i))
		if i%3 == 0 {
			name = resourceapi.QualifiedName(strings.Repeat("d", 58)+".com/") + resourceapi.QualifiedName(fmt.Sprintf("i%031d", i))
		}
		attributes[name] = pick(g,
			resourceapi.DeviceAttribute{StringValue: ptr.To(g.text())},
			resourceapi.DeviceAttribute{IntValue: ptr.To(pick[int64](g, math.MaxInt64, math.MinInt64, 0, -1))},
			resourceapi.DeviceAttribute{BoolValue: ptr.To(true)},
			resourceapi.DeviceAttribute{VersionValue: ptr.To(pick(g, "0.0.0", "18446744073709551615.0.0", "1.2.3-"+strings.Repeat("a", 50)))})
	}
	return attributes
}

func (g *generator) capacities(n int) map[resourceapi.QualifiedName]resourceapi.DeviceCapacity {
	capacities := make(map[resourceapi.QualifiedName]resourceapi.DeviceCapacity, n)
	for i := range n {
		capacities[resourceapi.QualifiedName(fmt.Sprintf("c%d", i))] = resourceapi.DeviceCapacity{Value: g.quantity()}
	}
	return capacities
}

func (g *generator) slice(driver, pool, node string) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: g.name(0)},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: &node,
			Pool: resourceapi.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: 1},
		},
	}
}

// driver names a driver with the longest name.
func (g *generator) driver() string {
	const suffix = ".example.com"
	return g.name(63-len(suffix)) + suffix
}

// slices makes the slices of one hostile pool.
func (g *generator) slices(driver string) []*resourceapi.ResourceSlice {
	slice := g.slice(driver, seldom(g, pick(g, g.name(0), g.name(60)+"/"+g.name(60)+"/p"), "\u00fcber", ""), pick(g, g.nodes...))
	kind := g.rng.Intn(6)
	devices := seldom(g, 128, 129)
	if kind == 4 {
		devices = 64 // With taints, that is the limit.
	}
	for i := range devices {
		device := resourceapi.Device{Name: fmt.Sprintf("d%062d", i)}
		switch kind {
		case 0: // All that a device can say of itself.
			device.Attributes = g.attributes(32)
		case 1:
			device.Attributes, device.Capacity = g.attributes(8), g.capacities(24)
		case 2:
			device.Name = pick(g, device.Name, "d0", g.text())
		case 3: // A pool that will never be complete.
			slice.Spec.Pool.Generation = math.MaxInt64
			slice.Spec.Pool.ResourceSliceCount = seldom[int64](g, pick[int64](g, math.MaxInt64, 2), 0, -1)
		case 4:
			for j := range 16 {
				device.Taints = append(device.Taints, resourceapi.DeviceTaint{
					Key: fmt.Sprintf("example.com/k%d", j), Value: "v", Effect: resourceapi.DeviceTaintEffectNoSchedule,
				})
			}
			if g.rng.Intn(1000) == 0 {
				device.Taints[0].Value, device.Taints[0].Effect = g.text(), "Unknown"
			}
		default:
			return g.counters(slice)
		}
		slice.Spec.Devices = append(slice.Spec.Devices, device)
	}
	return []*resourceapi.ResourceSlice{slice}
}

// counters makes a pool with as many counters as there may be, of which each device
// draws as many as it may.
func (g *generator) counters(sets *resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	sets.Spec.Pool.ResourceSliceCount = 2
	devices := g.slice(sets.Spec.Driver, sets.Spec.Pool.Name, *sets.Spec.NodeName)
	devices.Spec.Pool = sets.Spec.Pool
	amounts := func(n int) map[string]resourceapi.Counter {
		counters := make(map[string]resourceapi.Counter, n)
		for i := range n {
			counters[fmt.Sprintf("c%d", i)] = resourceapi.Counter{Value: g.quantity()}
		}
		return counters
	}
	for i := range seldom(g, 8, 9) {
		sets.Spec.SharedCounters = append(sets.Spec.SharedCounters, resourceapi.CounterSet{Name: fmt.Sprintf("set%d", i), Counters: amounts(32)})
	}
	for i := range 64 {
		device := resourceapi.Device{Name: fmt.Sprintf("d%d", i)}
		for j := range 2 {
			device.ConsumesCounters = append(device.ConsumesCounters, resourceapi.DeviceCounterConsumption{
				CounterSet: fmt.Sprintf("set%d", (i+j)%8), Counters: amounts(pick(g, 1, 16, 31)),
			})
		}
		devices.Spec.Devices = append(devices.Spec.Devices, device)
	}
	return []*resourceapi.ResourceSlice{sets, devices}
}
