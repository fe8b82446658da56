package allocator_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/placement"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// inThousands is a pool of 4096 devices, as of a fabric, of which no two are alike.
func inThousands() cluster {
	const parts, each = 32, 128
	var c cluster
	for part := range parts {
		var devices []*b.DeviceBuilder
		for i := part * each; i < (part+1)*each; i++ {
			devices = append(devices, b.Device(fmt.Sprintf("dev-%d", i)).Attr(pcieRoot, fmt.Sprintf("root-%d", i/2)).Attr(numaNode, i/8))
		}
		c.slices = append(c.slices, b.Slice(fmt.Sprintf("s-%d", part)).OnNode("n").InPool("p", 1, parts).Devices(devices...))
	}
	return c
}

// TestThousandsOfDevicesDoNotStall: the search for a better plan compares each device with each only if they can be alike, and
// takes fewer steps the longer each takes. It took 20 seconds for two devices, where it takes less than one.
func TestThousandsOfDevicesDoNotStall(t *testing.T) {
	c := inThousands()
	site, solver := c.site(), c.solver()
	shares := &placement.Demand{Version: 2, Kinds: []string{placement.AnyDevice}}
	for i := range 64 {
		shares.Shapes = append(shares.Shapes, placement.Shape{Weight: 1. / 64, Requests: []placement.Request{{Count: 1, Amount: float64(i+1) / 100}}})
	}
	for _, demand := range []*placement.Demand{nil, shares} {
		site.Objective = &allocator.Objective{Demand: demand}
		for _, requests := range []int{1, 2, 32} {
			claim := b.Claim("c", requestsNamed(requests)...)
			outcome, err := solver.Prepare(objects([]*b.ClaimBuilder{claim})).Solve(t.Context(), site)
			require.NoError(t, err)
			require.True(t, outcome.Fits())
			require.LessOrEqual(t, outcome.Value.Compare(outcome.FirstFit), 0)
			require.LessOrEqual(t, outcome.Compared*requests, 100, "%d requests, demand for shares: %v", requests, demand != nil)
		}
	}
}

// requestsNamed are so many requests for one device each.
func requestsNamed(n int) (list []*b.RequestBuilder) {
	for i := range n {
		list = append(list, b.Request(fmt.Sprintf("r%d", i), "gpu"))
	}
	return list
}
