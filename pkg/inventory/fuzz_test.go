package inventory_test

import (
	"fmt"
	"math"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// decisions are made by a fuzzer, one byte each. When they run out, all are 0.
type decisions []byte

func (d *decisions) below(n int) int {
	if len(*d) == 0 {
		return 0
	}
	first := int((*d)[0])
	*d = (*d)[1:]
	return first % n
}

// pick prefers the first choice, which is the sound one: of many mistakes at once
// only the first would be looked at.
func pick[T any](d *decisions, choices ...T) T {
	if n := d.below(256); n < 32 {
		return choices[n%len(choices)]
	}
	return choices[0]
}

// malformedSlice makes a slice that no API server should accept: names that are empty or used
// twice, negative counts, selectors that cannot be parsed, devices that consume undefined counters,
// amounts that no number holds, and fields that exclude each other.
func malformedSlice(d *decisions, name string) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
	spec := &slice.Spec
	spec.Driver = pick(d, b.Driver, "", "other.example.com")
	spec.Pool = resourceapi.ResourcePool{
		Name:               pick(d, "pool", "", "\u00fc\x00/"),
		Generation:         pick[int64](d, 1, 0, -1, 2, math.MaxInt64, math.MinInt64),
		ResourceSliceCount: pick(d, int64(1+d.below(2)), 0, -1, 3, math.MaxInt64),
	}
	spec.NodeName, spec.AllNodes, spec.NodeSelector = malformedReach(d)
	spec.PerDeviceNodeSelection = pick(d, nil, ptr.To(true), ptr.To(false))
	// The API allows one of the two.
	content := d.below(8)
	for range content % 3 {
		spec.SharedCounters = append(spec.SharedCounters, resourceapi.CounterSet{Name: pick(d, "set", "", "other"), Counters: malformedCounters(d)})
	}
	if content%3 == 0 || content == 7 {
		for range d.below(4) {
			spec.Devices = append(spec.Devices, malformedDevice(d))
		}
	}
	return slice
}

func malformedDevice(d *decisions) resourceapi.Device {
	device := resourceapi.Device{Name: []string{"a", "b", "c", "d", "", "a/b", "\u00fc", strings.Repeat("x", 1000)}[d.below(8)]}
	device.NodeName, device.AllNodes, device.NodeSelector = malformedReach(d)
	for range d.below(3) {
		device.ConsumesCounters = append(device.ConsumesCounters, resourceapi.DeviceCounterConsumption{
			CounterSet: pick(d, "set", "", "nowhere"), Counters: malformedCounters(d),
			CompatibilityGroups: pick(d, nil, []string{""}, []string{"x", "x"}),
		})
	}
	device.Taints = pick(d, nil, []resourceapi.DeviceTaint{{}}, []resourceapi.DeviceTaint{{Key: "k", Effect: "Unknown"}})
	device.BindingConditions = pick(d, nil, []string{}, []string{""})
	device.AllowMultipleAllocations = pick(d, nil, ptr.To(true))
	device.Capacity = pick(d, nil, map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"": {Value: malformedQuantity(d)}})
	return device
}

// malformedReach sets any of the fields that say which nodes are meant, also
// several of them.
func malformedReach(d *decisions) (nodeName *string, allNodes *bool, selector *v1.NodeSelector) {
	nodeName = pick(d, ptr.To("node"), nil, ptr.To(""), ptr.To("other"))
	allNodes = pick(d, nil, ptr.To(true), ptr.To(false))
	selector = pick(d, nil, &v1.NodeSelector{}, b.NodeSelector("zone", "1"), b.NodeSelector("not a / label / key", "\x00"),
		&v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: "Gt", Values: []string{"many"}}},
			MatchFields:      []v1.NodeSelectorRequirement{{Key: "unknown", Operator: "In"}},
		}}})
	return nodeName, allNodes, selector
}

func malformedCounters(d *decisions) map[string]resourceapi.Counter {
	var counters map[string]resourceapi.Counter
	for range d.below(4) {
		if counters == nil {
			counters = make(map[string]resourceapi.Counter)
		}
		counters[[]string{"memory", "engines", ""}[d.below(3)]] = resourceapi.Counter{Value: malformedQuantity(d)}
	}
	return counters
}

func malformedQuantity(d *decisions) resource.Quantity {
	return resource.MustParse(pick(d, "1", "0", "-1", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1n", "8Ei", "1e-9", "99999999999999999999999999", "1e1000"))
}

// FuzzMalformedSlices publishes, changes and removes slices that contradict the
// API, in two orders. Nothing may panic, and what nodes see must neither depend on
// the order nor break the promises of NodePool.
func FuzzMalformedSlices(f *testing.F) {
	f.Add([]byte(nil))
	for seed := range int64(500) {
		bytes := make([]byte, 400)
		rand.New(rand.NewSource(seed)).Read(bytes)
		f.Add(bytes)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		d := decisions(bytes)
		options := pick(&d, all, inventory.Options{}, inventory.Options{PartitionableDevices: true})
		store, current := inventory.NewStore(options), map[string]*resourceapi.ResourceSlice{}
		for range 6 {
			name := fmt.Sprintf("slice-%d", d.below(4))
			current[name] = pick(&d, malformedSlice(&d, name), nil)
			store.RefreshSlice(name, func() *resourceapi.ResourceSlice { return current[name] })
		}
		var published []*resourceapi.ResourceSlice
		for _, slice := range current {
			if slice != nil {
				published = append(published, slice)
			}
		}
		fresh := inventory.FromSlices(published, options)
		for _, node := range []*v1.Node{b.Node("node", "zone", "1"), b.Node("other")} {
			pools := store.OnNode(node)
			require.Equal(t, summarize(fresh.OnNode(node)), summarize(pools))
			for _, pool := range pools {
				requirePromisesKept(t, pool)
			}
		}
		for _, slice := range published {
			requirePromisesKept(t, store.Pool(inventory.PoolID{Driver: slice.Spec.Driver, Name: slice.Spec.Pool.Name}).Everywhere())
		}
		for name := range current {
			store.RefreshSlice(name, func() *resourceapi.ResourceSlice { return nil })
		}
		require.Empty(t, store.OnNode(b.Node("node", "zone", "1")), "all slices are gone")
		require.Empty(t, store.SharedPools(), "all slices are gone")
	})
}

// requirePromisesKept checks what the fields of NodePool say of each other.
func requirePromisesKept(t *testing.T, pool *inventory.NodePool) {
	t.Helper()
	if pool.State != inventory.Complete {
		require.NotEmpty(t, pool.Reason, "a pool that is %s says why", pool.State)
		return
	}
	names := map[string]bool{}
	for i, device := range pool.Devices {
		require.False(t, names[device.Name], "device %q is there twice", device.Name)
		names[device.Name] = true
		position, found := pool.Position(device.Name)
		require.True(t, found)
		require.Equal(t, i, position)
		for _, draw := range pool.Counters.Draws(i) {
			require.Less(t, draw.Set, len(pool.Counters.Sets))
			left := slices.Clone(pool.Counters.Published)
			draw.TakeFrom(left)
			draw.ReturnTo(left)
			require.Equal(t, pool.Counters.Published, left)
		}
	}
	for i := range pool.Reachable.All() {
		require.Less(t, i, len(pool.Devices))
	}
}
