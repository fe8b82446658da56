package quartermaster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// alternatives is a claim that prefers large over medium over small devices.
func alternatives(name string) *builder.ClaimBuilder {
	size := func(name string) *builder.RequestBuilder {
		return builder.Request(name, "gpu").Where(`device.attributes["gpu.example.com"].size == "` + name + `"`)
	}
	return builder.Claim(name, builder.FirstAvailable("r", size("large"), size("medium"), size("small")))
}

// sizedNode has devices of the given sizes, each named after its size.
func sizedNode(name string, sizes ...string) []runtime.Object {
	slice := builder.NodeSlice(name)
	for _, size := range sizes {
		slice.Devices(builder.Device(size).Attr("size", size))
	}
	return []runtime.Object{builder.Node(name), slice.Obj()}
}

func TestScore(t *testing.T) {
	t.Parallel()
	class := builder.Class("gpu")
	nodes := append(sizedNode("n1", "small"), append(sizedNode("n2", "large"), sizedNode("n3", "medium", "small")...)...)
	held := alternatives("held").Allocated("n2", "large")
	held.Status.Allocation.Devices.Results[0].Request = "r/large"
	allocated := with(alternatives("a").Allocated("n3", "medium"), onNode("n3"))
	allocated.Status.Allocation.Devices.Results[0].Request = "r/medium"
	everywhere := alternatives("a").Allocated("network", "nic")
	everywhere.Status.Allocation.Devices.Results[0].Request = "r/small"

	tests := map[string]struct {
		objects   []runtime.Object
		pod       *v1.Pod
		raw, want map[string]int64
	}{
		"first alternatives win": {
			objects: plus(nodes, class, alternatives("c").Obj()), pod: newPod("p", uses("c")),
			raw:  map[string]int64{"n1": 6, "n2": 8, "n3": 7},
			want: map[string]int64{"n1": 75, "n2": 100, "n3": 87},
		},
		"what is held does not count": {
			objects: plus(nodes, class, alternatives("c").Obj(), held), pod: newPod("p", uses("c")),
			raw:  map[string]int64{"n1": 6, "n3": 7},
			want: map[string]int64{"n1": 85, "n3": 100},
		},
		"sum of claims": {
			objects: plus(nodes, class, alternatives("c").Obj(), alternatives("d").Obj()), pod: newPod("p", uses("c"), uses("d")),
			raw:  map[string]int64{"n3": 7 + 6},
			want: map[string]int64{"n3": 100},
		},
		"allocated before unallocated": {
			objects: plus(nodes, class, allocated, alternatives("c").Obj()), pod: newPod("p", uses("a"), uses("c")),
			raw:  map[string]int64{"n3": 7 + 6},
			want: map[string]int64{"n3": 100},
		},
		"unallocated before allocated": {
			objects: plus(nodes, class, everywhere, alternatives("c").Obj()), pod: newPod("p", uses("c"), uses("a")),
			raw:  map[string]int64{"n1": 6 + 6, "n2": 8 + 6, "n3": 7 + 6},
			want: map[string]int64{"n1": 85, "n2": 100, "n3": 92},
		},
		"no alternatives": {
			objects: plus(nodes, class, gpus("c", 1).Obj()), pod: newPod("p", uses("c")),
			raw:  map[string]int64{"n1": 0, "n2": 0, "n3": 0},
			want: map[string]int64{"n1": 100, "n2": 100, "n3": 0}, // Its two devices are worth more together.
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, test.objects, func(t *testing.T, f *fixture) {
				raw, normalized := f.mustBegin(test.pod).filter().scores()
				require.Empty(t, cmp.Diff(test.raw, raw), "scores")
				require.Empty(t, cmp.Diff(test.want, normalized), "normalized scores")
			})
		})
	}
}

func TestScoreDecidesOnTheNode(t *testing.T) {
	t.Parallel()
	objects := plus(append(sizedNode("n1", "small"), sizedNode("n2", "large")...), builder.Class("gpu"), alternatives("c").Obj())
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		result := f.schedule(newPod("p", uses("c")))
		require.Empty(t, result.phase, "%v", result.status)
		require.Equal(t, "n2", result.node)
		require.Equal(t, "r/large", f.claim("c").Status.Allocation.Devices.Results[0].Request)
	})
}
