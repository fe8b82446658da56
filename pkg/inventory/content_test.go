package inventory_test

import (
	"fmt"
	"math/rand"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// twoDevices are published by the node with the given name.
func twoDevices(node string) *b.SliceBuilder {
	list := func(values ...bool) resourceapi.DeviceAttribute {
		return resourceapi.DeviceAttribute{BoolValues: values}
	}
	return b.NodeSlice(node,
		b.Device("d0").Attr("model", "a100").Attr("index", 0).Attr("spare", false).Attr("links", list(true, false)).
			Capacity("memory", "40Gi").Capacity("cores", "1"),
		b.Device("d1").Attr("model", "a100").Attr("index", 1).Capacity("memory", "40Gi"))
}

// contentOf returns the content of the node's only pool.
func contentOf(t *testing.T, store *inventory.Store, node string) *inventory.Content {
	t.Helper()
	pools := store.OnNode(b.Node(node))
	require.Len(t, pools, 1)
	require.Equal(t, inventory.Complete, pools[0].State, pools[0].Reason)
	return pools[0].Content
}

// contentsOf publishes twoDevices and a changed version of it, and returns both contents.
func contentsOf(t *testing.T, change func(*resourceapi.ResourceSlice)) (one, other *inventory.Content) {
	t.Helper()
	changed := twoDevices("b").Modify(change).Obj()
	store := inventory.FromSlices([]*resourceapi.ResourceSlice{twoDevices("a").Obj(), changed}, all)
	return contentOf(t, store, "a"), contentOf(t, store, "b")
}

func TestWhatExpressionsCannotSeeIsNoContent(t *testing.T) {
	for name, change := range map[string]func(*resourceapi.ResourceSlice){
		"nothing else than node and pool": func(*resourceapi.ResourceSlice) {},
		"names of devices":                func(s *resourceapi.ResourceSlice) { s.Spec.Devices[0].Name = "other" },
		"metadata":                        func(s *resourceapi.ResourceSlice) { s.Labels = map[string]string{"a": "b"} },
		"taints": func(s *resourceapi.ResourceSlice) {
			s.Spec.Devices[1].Taints = []resourceapi.DeviceTaint{{Key: "sick", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
		},
		"generation": func(s *resourceapi.ResourceSlice) { s.Spec.Pool.Generation++ },
	} {
		t.Run(name, func(t *testing.T) {
			one, other := contentsOf(t, change)
			require.Same(t, one, other)
		})
	}
}

func TestWhatExpressionsSeeMakesContentsDiffer(t *testing.T) {
	attribute := func(name resourceapi.QualifiedName, value resourceapi.DeviceAttribute) func(*resourceapi.ResourceSlice) {
		return func(s *resourceapi.ResourceSlice) { s.Spec.Devices[0].Attributes[name] = value }
	}
	capacity := func(name resourceapi.QualifiedName, value string) func(*resourceapi.ResourceSlice) {
		return func(s *resourceapi.ResourceSlice) {
			s.Spec.Devices[0].Capacity[name] = resourceapi.DeviceCapacity{Value: resource.MustParse(value)}
		}
	}
	for name, change := range map[string]func(*resourceapi.ResourceSlice){
		"driver":                   func(s *resourceapi.ResourceSlice) { s.Spec.Driver = "other.example.com" },
		"fewer devices":            func(s *resourceapi.ResourceSlice) { s.Spec.Devices = s.Spec.Devices[:1] },
		"order of devices":         func(s *resourceapi.ResourceSlice) { d := s.Spec.Devices; d[0], d[1] = d[1], d[0] },
		"one more attribute":       attribute("uuid", resourceapi.DeviceAttribute{StringValue: ptr.To("GPU-0")}),
		"one attribute less":       func(s *resourceapi.ResourceSlice) { delete(s.Spec.Devices[0].Attributes, "model") },
		"string":                   attribute("model", resourceapi.DeviceAttribute{StringValue: ptr.To("t4")}),
		"version, not string":      attribute("model", resourceapi.DeviceAttribute{VersionValue: ptr.To("a100")}),
		"int":                      attribute("index", resourceapi.DeviceAttribute{IntValue: ptr.To[int64](7)}),
		"bool":                     attribute("spare", resourceapi.DeviceAttribute{BoolValue: ptr.To(true)}),
		"int, not bool":            attribute("spare", resourceapi.DeviceAttribute{IntValue: ptr.To[int64](0)}),
		"list of bool":             attribute("links", resourceapi.DeviceAttribute{BoolValues: []bool{true, true}}),
		"list of int":              attribute("links", resourceapi.DeviceAttribute{IntValues: []int64{1, 0}}),
		"list of string":           attribute("links", resourceapi.DeviceAttribute{StringValues: []string{"1", "0"}}),
		"list of version":          attribute("links", resourceapi.DeviceAttribute{VersionValues: []string{"1.0.0"}}),
		"a list and a value":       attribute("model", resourceapi.DeviceAttribute{StringValue: ptr.To("a100"), StringValues: []string{}}),
		"capacity":                 capacity("memory", "80Gi"),
		"how a capacity is stored": capacity("cores", "1000m"),
		"format of a capacity":     capacity("cores", "1Ki"),
		"one more capacity":        capacity("lanes", "16"),
		"one capacity less":        func(s *resourceapi.ResourceSlice) { delete(s.Spec.Devices[0].Capacity, "cores") },
		"request policy": func(s *resourceapi.ResourceSlice) {
			s.Spec.Devices[0].Capacity["memory"] = resourceapi.DeviceCapacity{
				Value:         resource.MustParse("40Gi"),
				RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: ptr.To(resource.MustParse("1Gi"))},
			}
		},
		"shareable": func(s *resourceapi.ResourceSlice) { s.Spec.Devices[0].AllowMultipleAllocations = ptr.To(true) },
	} {
		t.Run(name, func(t *testing.T) {
			one, other := contentsOf(t, change)
			require.NotSame(t, one, other)
		})
	}
}

// TestFieldsOfDevices fails when the API gets a new field, so that a developer decides whether the
// field is part of the content.
func TestFieldsOfDevices(t *testing.T) {
	for object, fields := range map[any]int{
		reflect.TypeFor[resourceapi.DeviceAttribute](): 8,
		reflect.TypeFor[resourceapi.DeviceCapacity]():  2,
		reflect.TypeFor[resourceapi.Device]():          13,
	} {
		require.Equal(t, fields, object.(reflect.Type).NumField(),
			"%v has other fields than before: compare those that expressions can see in content.go, then adapt this test", object)
	}
}

func TestAContentOutlivesVersionsOfItsSlice(t *testing.T) {
	store := inventory.FromSlices([]*resourceapi.ResourceSlice{twoDevices("a").Obj()}, all)
	before := contentOf(t, store, "a")
	rewritten := twoDevices("a").InPool("a", 2, 1).Obj()
	store.RefreshSlice("a", func() *resourceapi.ResourceSlice { return rewritten })
	require.Same(t, before, contentOf(t, store, "a"))

	changed := twoDevices("a").Modify(func(s *resourceapi.ResourceSlice) { s.Spec.Devices = s.Spec.Devices[1:] }).Obj()
	store.RefreshSlice("a", func() *resourceapi.ResourceSlice { return changed })
	require.NotSame(t, before, contentOf(t, store, "a"))
	store.RefreshSlice("a", func() *resourceapi.ResourceSlice { return rewritten })
	require.NotSame(t, before, contentOf(t, store, "a"), "a content is forgotten with its last slice")
}

// TestPoolsOfSeveralSlices have a content of their own, unless the others hold no devices.
func TestPoolsOfSeveralSlices(t *testing.T) {
	counters := b.Slice("a-counters").InPool("a", 1, 2).OnNode("a").Counters("set", "memory", "1Gi").Obj()
	store := inventory.FromSlices([]*resourceapi.ResourceSlice{
		twoDevices("a").InPool("a", 1, 2).Obj(), counters,
		twoDevices("b").Obj(),
		twoDevices("c").InPool("c", 1, 2).Obj(), b.Slice("c2").InPool("c", 1, 2).OnNode("c").Devices(b.Device("d2")).Obj(),
	}, all)
	require.Same(t, contentOf(t, store, "b"), contentOf(t, store, "a"))
	require.NotSame(t, contentOf(t, store, "b"), contentOf(t, store, "c"))
}

// TestContentsAreThoseOfSlices applies random changes: what is known must be what the
// slices have, and nothing else.
func TestContentsAreThoseOfSlices(t *testing.T) {
	rng := rand.New(rand.NewSource(3))
	store := inventory.NewStore(all)
	current := map[string]int{}
	for range 2000 {
		name, kind := fmt.Sprintf("node-%d", rng.Intn(6)), rng.Intn(4)
		published := twoDevices(name).Modify(func(s *resourceapi.ResourceSlice) {
			s.Spec.Devices[0].Attributes["index"] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(kind))}
		}).Obj()
		current[name] = kind
		if kind == 0 {
			published = nil
			delete(current, name)
		}
		store.RefreshSlice(name, func() *resourceapi.ResourceSlice { return published })

		known := map[int]*inventory.Content{}
		for name, kind := range current {
			content := contentOf(t, store, name)
			if known[kind] == nil {
				known[kind] = content
			}
			require.Same(t, known[kind], content)
		}
		require.Equal(t, len(known), store.KnownContents())
	}
}
