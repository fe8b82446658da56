package allocator_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestSlicesOfTheSameName has slices as autoscalers and tests make them up: with names
// that others have too, or none.
func TestSlicesOfTheSameName(t *testing.T) {
	oneDevice := func(name, driver, pool, device string) *b.SliceBuilder {
		return b.Slice(name).OfDriver(driver).InPool(pool, 1, 1).OnNode("n").Devices(b.Device(device))
	}
	parts := func(name string, devices ...string) []*b.SliceBuilder {
		var list []*b.SliceBuilder
		for _, device := range devices {
			list = append(list, b.Slice(name).InPool("p", 1, int64(len(devices))).OnNode("n").Devices(b.Device(device)))
		}
		return list
	}
	thirty := make([]string, 30)
	for i := range thirty {
		thirty[i] = fmt.Sprintf("dev-%d", i*7%30)
	}
	tests := map[string]struct {
		slices []*b.SliceBuilder
		asked  int64
		want   []string
	}{
		"of two drivers": {
			[]*b.SliceBuilder{oneDevice("s", "a.example.com", "n", "x"), oneDevice("s", "b.example.com", "n", "x")},
			2, []string{"gpu=n/x", "gpu=n/x"},
		},
		"of two pools": {
			[]*b.SliceBuilder{oneDevice("s", b.Driver, "q", "x"), oneDevice("s", b.Driver, "p", "y")},
			2, []string{"gpu=p/y", "gpu=q/x"},
		},
		"without names":               {[]*b.SliceBuilder{oneDevice("", b.Driver, "p", "x"), oneDevice("", b.Driver, "q", "y")}, 2, []string{"gpu=p/x", "gpu=q/y"}},
		"of one pool, in their order": {parts("s", "z", "y", "x"), 2, []string{"gpu=p/z", "gpu=p/y"}},
		"one of them is for all nodes": {
			[]*b.SliceBuilder{
				b.Slice("s").InPool("p", 1, 2).OnAllNodes().Devices(b.Device("z")),
				b.Slice("s").InPool("p", 1, 2).OnNode("n").Devices(b.Device("y")),
			}, 1, []string{"gpu=p/y"},
		},
		"more than a few": {parts("s", thirty...), 30, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := dropInCase(tc.slices...)
			s.claims = objects([]*b.ClaimBuilder{wants(tc.asked)})
			results, err := s.run(t.Context(), allocator.New, newCache())
			require.NoError(t, err)
			require.Len(t, results, 1)
			if tc.want != nil {
				require.Equal(t, tc.want, chosen(results[0]))
			}
			diff, _ := s.compare(t.Context(), newCache())
			require.Empty(t, diff)
		})
	}
}

// askedOften are small worlds for tests that ask upstream several times about each.
var askedOften = worlds{fromSeed: fromSeed, tooHard: 400}

// TestSameAsUpstreamWhateverTheNames gives the slices of random scenarios the same name, or none,
// or some the same.
func TestSameAsUpstreamWhateverTheNames(t *testing.T) {
	askedOften.each(t, 12_000_000_000, scenarioCount(4_000), func(t *testing.T, s scenario, celCache *cel.Cache) outcome {
		var result outcome
		for _, names := range [][]string{{"s"}, {""}, {"s", "r"}} {
			s.slices = slices.Clone(s.slices)
			for i := range s.slices {
				s.slices[i] = s.slices[i].DeepCopy()
				s.slices[i].Name = names[i%len(names)]
			}
			var diff string
			if diff, result = s.compare(t.Context(), celCache); diff != "" {
				t.Errorf("%s\n%s", diff, s)
			}
		}
		return result
	})
}

// TestNextSnapshot asks about random scenarios again, with the same slices as before, some of them changed in
// ways that a caller may change them.
func TestNextSnapshot(t *testing.T) {
	askedOften.each(t, 13_000_000_000, scenarioCount(4_000), func(t *testing.T, s scenario, celCache *cel.Cache) outcome {
		diff, result := s.compare(t.Context(), celCache)
		random := rand.New(rand.NewPCG(uint64(len(s.slices)), 1))
		for round := 0; round < 4 && diff == ""; round++ {
			for _, slice := range s.slices {
				if random.IntN(2) == 0 {
					changeInPlace(random, slice)
				}
			}
			diff, result = s.compare(t.Context(), celCache)
		}
		if diff != "" {
			t.Errorf("%s\n%s", diff, s)
		}
		return result
	})
}

// changeInPlace changes a slice without giving it another address.
func changeInPlace(random *rand.Rand, slice *resourceapi.ResourceSlice) {
	spec := &slice.Spec
	switch random.IntN(8) {
	case 0:
		spec.Pool.Generation++
	case 1:
		spec.Pool.ResourceSliceCount = 1
	case 2:
		if spec.NodeName != nil {
			*spec.NodeName = "node-0"
		}
	case 3:
		if spec.NodeName != nil {
			spec.NodeName = ptr.To("node-1")
		}
	}
	if len(spec.Devices) == 0 {
		return
	}
	device := &spec.Devices[random.IntN(len(spec.Devices))]
	switch random.IntN(6) {
	case 0:
		device.Name += "x"
	case 1:
		device.Taints = append(slices.Clone(device.Taints), resourceapi.DeviceTaint{Key: "t1", Effect: resourceapi.DeviceTaintEffectNoSchedule})
	case 2:
		device.Taints = nil
	case 3:
		device.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"model": {StringValue: ptr.To("big")}, "numa": {IntValue: ptr.To(int64(0))},
		}
	case 4:
		spec.Devices = append(slices.Clone(spec.Devices[:len(spec.Devices)-1]), resourceapi.Device{Name: "new"})
	}
}

// TestSlicesAreFreed: findings about a slice keep neither the slice nor its devices alive after the caller
// has released them, nor do they keep the CEL cache alive.
func TestSlicesAreFreed(t *testing.T) {
	celCache := newCache()
	var devices []weak.Pointer[resourceapi.Device]
	ask := func(celCache *cel.Cache) {
		s := dropInCase(onNode("p", gpus(2)...),
			b.Slice("q-1").InPool("q", 1, 2).OnNode("n").Devices(b.Device("x")), b.Slice("q-2").InPool("q", 1, 2).OnNode("m").Devices(b.Device("y")))
		for range 2 {
			_, err := s.run(t.Context(), allocator.New, celCache)
			require.NoError(t, err)
		}
		for _, slice := range s.slices {
			devices = append(devices, weak.Make(&slice.Spec.Devices[0]))
		}
	}
	ask(celCache)
	other := newCache()
	freedCache := weak.Make(other)
	ask(other)
	other = nil
	require.Eventually(t, func() bool {
		runtime.GC()
		return freedCache.Value() == nil && !slices.ContainsFunc(devices, func(d weak.Pointer[resourceapi.Device]) bool { return d.Value() != nil })
	}, 3*time.Minute, time.Millisecond)
	runtime.KeepAlive(celCache)
}
