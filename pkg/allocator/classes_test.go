package allocator_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	b "github.com/quartermaster-dra/quartermaster/pkg/builder"
)

// list is an attribute value that is a list.
func list(values ...string) resourceapi.DeviceAttribute {
	return resourceapi.DeviceAttribute{StringValues: values}
}

// TestDevicesThatCannotBeSwapped has devices that look interchangeable, but are not
// because distinctAttribute accepts a value of unknown type (a list, while lists
// are off) from the first device only.
func TestDevicesThatCannotBeSwapped(t *testing.T) {
	claim := b.Claim("claim",
		b.Request("free", "gpu"),
		b.Request("bound", "gpu").Count(2),
	).Distinct("example.com/root", "bound")
	s := scenario{
		features: structured.Features{},
		classes:  classList(b.Class("gpu")),
		slices: []*resourceapi.ResourceSlice{onNode("p",
			b.Device("list-0").Attr("example.com/root", list("a")),
			b.Device("single").Attr("example.com/root", "b"),
			b.Device("list-1").Attr("example.com/root", list("a")),
		).Obj()},
		node:   b.Node("n"),
		claims: []*resourceapi.ResourceClaim{claim.Obj()},
	}
	diff, result := s.compare(t.Context(), newCache())
	require.Empty(t, diff)
	require.Equal(t, allocated, result)

	results, err := s.run(t.Context(), allocator.New, newCache())
	require.NoError(t, err)
	require.Equal(t, []string{"free=p/list-1", "bound=p/list-0", "bound=p/single"}, chosen(results[0]))
}

// TestEachClassOnce pins that interchangeable devices are not tried one after the
// other. Each device of class "same" is like any other; the request for "nothing"
// comes last, so that without classes all combinations would be tried first.
func TestEachClassOnce(t *testing.T) {
	hopeless := nothing()
	tests := map[string]struct {
		devices []*b.DeviceBuilder
		claims  []*b.ClaimBuilder
		steps   int
	}{
		"one request": {
			devices: gpus(16),
			claims:  []*b.ClaimBuilder{b.Claim("a", b.Request("gpu", "gpu").Count(8), hopeless)},
			steps:   8,
		},
		"two kinds of devices": {
			devices: numbered(gpus(16), "numa", 0, 1),
			claims:  []*b.ClaimBuilder{b.Claim("a", b.Request("gpu", "gpu").Count(4), hopeless).Match("gpu.example.com/numa")},
			steps:   4 + 3 + 4 + 3,
		},
		"two claims": {
			devices: gpus(16),
			claims:  []*b.ClaimBuilder{b.Claim("a", b.Request("gpu", "gpu").Count(8)), b.Claim("b", b.Request("gpu", "gpu").Count(8), hopeless)},
			steps:   16,
		},
		"admin access, where a device is new or taken by the other claim": {
			devices: gpus(16),
			claims:  []*b.ClaimBuilder{b.Claim("a", b.Request("gpu", "gpu").Count(8)), b.Claim("b", b.Request("gpu", "gpu").Count(2).Admin(), hopeless)},
			steps:   8 + 1 + 2 + 1 + 1,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := cluster{slices: []*b.SliceBuilder{onNode("p", tc.devices...)}, classes: []*resourceapi.DeviceClass{b.Class("nothing", "false")}}
			require.Equal(t, tc.steps, c.mustNotFit(t, tc.claims...).Steps)
		})
	}
}
