package allocator_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
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

// poweredGPUs makes a node with a number of boards, each with power for some of its
// devices. The devices of a board are alike, and so are the boards.
func poweredGPUs(boards, devices, power int) cluster {
	counters := b.Slice("counters").InPool("p", 1, 2).OnNode("n")
	slice := b.Slice("devices").InPool("p", 1, 2).OnNode("n")
	for board := range boards {
		set := fmt.Sprintf("board-%d", board)
		counters.Counters(set, "power", fmt.Sprint(power))
		for i := range devices {
			slice.Devices(b.Device(fmt.Sprintf("%s-gpu-%d", set, i)).Consumes(set, "power", "1"))
		}
	}
	return cluster{slices: []*b.SliceBuilder{counters, slice}}
}

// TestEachClassOnce pins that interchangeable devices are not tried one after the other, in claims that want
// one device more than there is power for. Without classes the search would try all combinations. For the
// last place it tries each device, because a device that cannot be placed costs no further search.
func TestEachClassOnce(t *testing.T) {
	tests := map[string]struct {
		cluster cluster
		claims  []*b.ClaimBuilder
		steps   int
	}{
		"one request":  {poweredGPUs(1, 16, 7), []*b.ClaimBuilder{counts(8)}, 7 + 9},
		"two requests": {poweredGPUs(1, 16, 7), []*b.ClaimBuilder{counts(4, 4)}, 4 + 3 + 9},
		"two claims":   {poweredGPUs(1, 16, 7), []*b.ClaimBuilder{wants(4), wants(4)}, 4 + 3 + 9},
		// The other board is in the same state when the first fails.
		"two boards":               {poweredGPUs(2, 8, 3), []*b.ClaimBuilder{counts(7)}, 6 + 10},
		"eight boards":             {poweredGPUs(8, 8, 3), []*b.ClaimBuilder{counts(25)}, 24 + 40},
		"two boards, two requests": {poweredGPUs(2, 8, 3), []*b.ClaimBuilder{counts(4, 3)}, 21},
		"admin access, where a device is new or taken by the other claim": {
			poweredGPUs(1, 16, 7), []*b.ClaimBuilder{wants(4), b.Claim("b", b.Request("gpu", "gpu").Count(4).Admin()), wants(4)}, 20,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.steps, tc.cluster.mustNotFit(t, tc.claims...).Steps)
		})
	}
}
