package checker

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// twoClaims returns a cluster with one slice and two claims.
func twoClaims(slice *resourceapi.ResourceSlice, first, second *resourceapi.ResourceClaim) cluster {
	return cluster{
		nodes:  []*corev1.Node{newNode("node-a")},
		slices: []*resourceapi.ResourceSlice{slice},
		claims: []*resourceapi.ResourceClaim{first, second},
	}
}

func TestHolders(t *testing.T) {
	plain := newSlice("a", "node-a", builder.Device("gpu-0"), builder.Device("gpu-1"))
	shared := newSlice("a", "node-a", builder.Device("gpu-0").Shared().Capacity("memory", "10Gi"))
	const device = "DeviceHeldTwice device gpu.example.com/node-a/gpu-0"
	one := func(name string, more ...claimBuilder) *resourceapi.ResourceClaim {
		return newClaim(name, append([]claimBuilder{request("gpu", 1), allocated("gpu", "node-a", "gpu-0")}, more...)...)
	}
	runAll(t, map[string]testCase{
		"two exclusive holders": {
			cluster:   twoClaims(plain, one("x"), one("y")),
			want:      []string{device},
			wantTexts: []string{"claim train/x", "claim train/y", "request gpu"},
		},
		"the device is not published anymore": {
			cluster:      twoClaims(newSlice("a", "node-a"), one("x"), one("y")),
			want:         []string{device},
			wantWarnings: []string{"DeviceMissing claim train/x", "DeviceMissing claim train/y"},
		},
		"same claim twice": {
			cluster: twoClaims(plain, newClaim("x", request("gpu", 2), allocated("gpu", "node-a", "gpu-0", "gpu-0")), newClaim("y")),
			want:    []string{device},
		},
		"exclusive and admin access": {
			cluster: twoClaims(plain, one("x"), one("y", adminAccess)),
		},
		"admin access only": {
			cluster: twoClaims(plain, one("x", adminAccess), one("y", adminAccess)),
		},
		"same claim twice, one with admin access": {
			cluster: twoClaims(plain, one("x", request("watch", 1), allocated("watch", "node-a", "gpu-0"), adminAccess), newClaim("y")),
		},
		"two shares": {
			cluster: twoClaims(shared, one("x", share("s1", "1Gi")), one("y", share("s2", "1Gi"))),
		},
		"two shares in one claim": {
			cluster: twoClaims(shared, newClaim("x", request("gpu", 2),
				allocated("gpu", "node-a", "gpu-0"), share("s1", "1Gi"),
				allocated("gpu", "node-a", "gpu-0"), share("s2", "1Gi")), newClaim("y")),
		},
		"same share twice": {
			cluster:   twoClaims(shared, one("x", share("s1", "1Gi")), one("y", share("s1", "1Gi"))),
			want:      []string{device},
			wantTexts: []string{"as share s1"},
		},
		"shares of a device that cannot be shared": {
			cluster:      twoClaims(plain, one("x", share("s1", "1Gi")), one("y", share("s2", "1Gi"))),
			want:         []string{device},
			wantWarnings: []string{"DeviceMissing device gpu.example.com/node-a/gpu-0"},
		},
		"share beside an exclusive holder": {
			cluster: twoClaims(shared, one("x", share("s1", "1Gi")), one("y")),
			want:    []string{device},
		},
		"same name in another pool": {
			cluster: func() cluster {
				c := twoClaims(plain, one("x"), newClaim("y", request("gpu", 1), allocated("gpu", "node-b", "gpu-0")))
				c.slices = append(c.slices, newSlice("b", "node-b", builder.Device("gpu-0")))
				return c
			}(),
		},
	})
}

func TestCapacity(t *testing.T) {
	slice := newSlice("a", "node-a", builder.Device("gpu-0").Shared().Capacity("memory", "10Gi"))
	one := func(name string, more ...claimBuilder) *resourceapi.ResourceClaim {
		return newClaim(name, append([]claimBuilder{request("gpu", 1), allocated("gpu", "node-a", "gpu-0")}, more...)...)
	}
	withdrawn := newSlice("a", "node-a", builder.Device("gpu-0").Shared().Capacity("memory", "10Gi"))
	withdrawn.Spec.Devices[0].Capacity = nil
	runAll(t, map[string]testCase{
		"all of it": {
			cluster: twoClaims(slice, one("x", share("s1", "4Gi")), one("y", share("s2", "6Gi"))),
		},
		"more than there is": {
			cluster:   twoClaims(slice, one("x", share("s1", "4Gi")), one("y", share("s2", "6145Mi"))),
			want:      []string{"CapacityExceeded device gpu.example.com/node-a/gpu-0"},
			wantTexts: []string{"has 10Gi of memory", "claim train/x", "claim train/y"},
		},
		"admin access does not count": {
			cluster: twoClaims(slice, one("x", share("s1", "4Gi")), one("y", share("s2", "10Gi"), adminAccess)),
		},
		"negative amount": {
			cluster: twoClaims(slice, one("x", share("s1", "20Gi")), one("y", share("s2", "-10Gi"))),
			want:    []string{"CapacityExceeded device gpu.example.com/node-a/gpu-0"},
		},
		"capacity was withdrawn": {
			cluster:      twoClaims(withdrawn, one("x", share("s1", "4Gi")), newClaim("y")),
			wantWarnings: []string{"DeviceMissing device gpu.example.com/node-a/gpu-0"},
		},
	})
}

// counterCluster has counters for 80Gi in a slice of their own.
func counterCluster(claims ...*resourceapi.ResourceClaim) cluster {
	values := newSlice("counters", "node-a")
	values.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "card", Counters: counters("memory", "80Gi")}}
	return cluster{
		nodes: []*corev1.Node{newNode("node-a")},
		slices: []*resourceapi.ResourceSlice{values, newSlice("devices", "node-a",
			builder.Device("part-0").Consumes("card", "memory", "40Gi"),
			builder.Device("part-1").Consumes("card", "memory", "40Gi"),
			builder.Device("whole").Consumes("card", "memory", "80Gi"),
			builder.Device("shared").Shared().Capacity("memory", "10Gi").Consumes("card", "memory", "80Gi"),
		)},
		claims: claims,
	}
}

// Up to Kubernetes 1.34, sets of counters are those of the slice with the devices, and may have the same name.
func TestCountersBesideDevices(t *testing.T) {
	mixed := func(name, memory string) *resourceapi.ResourceSlice {
		slice := newSlice(name, "node-a", builder.Device(name+"-part").Consumes("card", "memory", "40Gi"), builder.Device(name+"-other").Consumes("card", "memory", "40Gi"))
		slice.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "card", Counters: counters("memory", memory)}}
		return slice
	}
	using := func(devices ...string) cluster {
		return cluster{
			nodes:  []*corev1.Node{newNode("node-a")},
			slices: []*resourceapi.ResourceSlice{mixed("large", "80Gi"), mixed("small", "40Gi")},
			claims: []*resourceapi.ResourceClaim{newClaim("parts", request("gpu", int64(len(devices))), allocated("gpu", "node-a", devices...))},
		}
	}
	runAll(t, map[string]testCase{
		"all of it": {cluster: using("large-part", "large-other", "small-part")},
		"more than the slice has": {
			cluster:   using("small-part", "small-other"),
			want:      []string{"CounterOverdrawn pool gpu.example.com/node-a"},
			wantTexts: []string{"small/card/memory has 40Gi"},
		},
	})
}

func TestCounters(t *testing.T) {
	parts := newClaim("parts", request("gpu", 2), allocated("gpu", "node-a", "part-0", "part-1"))
	whole := newClaim("whole", request("gpu", 1), allocated("gpu", "node-a", "whole"))
	newGeneration := func(c cluster, values ...resourceapi.CounterSet) cluster {
		for _, slice := range c.slices {
			next := slice.DeepCopy()
			next.Name += "-2"
			next.Spec.Pool.Generation = 2
			if len(next.Spec.SharedCounters) > 0 {
				next.Spec.SharedCounters = values
			}
			c.slices = append(c.slices, next)
		}
		return c
	}
	const violation = "CounterOverdrawn pool gpu.example.com/node-a"
	runAll(t, map[string]testCase{
		"all of it": {cluster: counterCluster(parts)},
		"more than there is": {
			cluster:   counterCluster(parts, whole),
			want:      []string{violation},
			wantTexts: []string{"card/memory has 80Gi", "160Gi", "part-0, part-1, whole"},
		},
		"admin access does not count": {
			cluster: counterCluster(parts, newClaim("watch", request("gpu", 1), allocated("gpu", "node-a", "whole"), adminAccess)),
		},
		"a device counts once for all its shares": {
			cluster: counterCluster(
				newClaim("x", request("gpu", 1), allocated("gpu", "node-a", "shared"), share("s1", "1Gi")),
				newClaim("y", request("gpu", 1), allocated("gpu", "node-a", "shared"), share("s2", "1Gi"))),
		},
		"the current generation has more": {
			cluster: newGeneration(counterCluster(parts, whole), resourceapi.CounterSet{Name: "card", Counters: counters("memory", "160Gi")}),
		},
		"the current generation has less": {
			cluster: newGeneration(counterCluster(parts), resourceapi.CounterSet{Name: "card", Counters: counters("memory", "40Gi")}),
			want:    []string{violation},
		},
		"the current generation does not have it yet": {
			cluster:      newGeneration(counterCluster(parts)),
			wantWarnings: []string{"DeviceMissing pool gpu.example.com/node-a"},
		},
	})
}

func TestDevicesExist(t *testing.T) {
	claim := newClaim("x", request("gpu", 1), allocated("gpu", "node-a", "gpu-0"))
	old := newSlice("old", "node-a", builder.Device("gpu-0"))
	current := newSlice("new", "node-a", builder.Device("gpu-1"))
	current.Spec.Pool.Generation = 2
	replaced := cluster{slices: []*resourceapi.ResourceSlice{old, current}, claims: []*resourceapi.ResourceClaim{claim}}
	runAll(t, map[string]testCase{
		"published": {
			cluster: cluster{slices: []*resourceapi.ResourceSlice{old}, claims: []*resourceapi.ResourceClaim{claim}},
			options: Options{StrictDevices: true},
		},
		"not in the current generation": {
			cluster:      replaced,
			wantWarnings: []string{"DeviceMissing claim train/x"},
		},
		"not in the current generation, strictly": {
			cluster:   replaced,
			options:   Options{StrictDevices: true},
			want:      []string{"DeviceMissing claim train/x"},
			wantTexts: []string{"request gpu", "gpu.example.com/node-a/gpu-0"},
		},
		"no such pool, strictly": {
			cluster: cluster{claims: []*resourceapi.ResourceClaim{claim}},
			options: Options{StrictDevices: true},
			want:    []string{"DeviceMissing claim train/x"},
		},
	})
}
