package devices_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// BenchmarkGang measures the search and the plan for a gang of 1,000 pods that are alike, on 5,000 nodes with 8 devices
// each.
func BenchmarkGang(bench *testing.B) {
	const nodes, devices, pods = 5000, 8, 1000
	for name, tc := range map[string]struct {
		full bool
		// network is the number of devices that all nodes reach; each pod needs one of them, too.
		network int
	}{
		"empty":                   {},
		"full":                    {full: true},
		"network":                 {network: 1000},
		"network with too few":    {network: 900},
		"network, nodes are full": {full: true, network: 1000},
	} {
		bench.Run(name, func(bench *testing.B) {
			var published []*b.SliceBuilder
			zones := make([]string, nodes)
			for i := range nodes {
				published = append(published, b.NodeSlice(fmt.Sprintf("n%d", i), xs(devices)...))
			}
			for part := range tc.network / 100 {
				slice := b.Slice(fmt.Sprintf("net-%d", part)).InPool("net", 1, int64(tc.network/100)).OnAllNodes()
				for i := range 100 {
					slice.Devices(model(fmt.Sprintf("y-%d-%d", part, i), "y"))
				}
				published = append(published, slice)
			}
			c := newCluster(zones, published...)
			if tc.full {
				var names []string
				for i := range devices {
					names = append(names, fmt.Sprintf("x-%d", i))
				}
				for i := range nodes {
					c.hold(b.Claim(fmt.Sprintf("held-%d", i), b.Request("r", "any")).Allocated(fmt.Sprintf("n%d", i), names...))
				}
			}
			claim := b.Claim("", b.Request("r", "x"))
			if tc.network > 0 {
				claim = b.Claim("", b.Request("r", "x"), b.Request("s", "y"))
			}
			g := podsWith("p", pods, claim)
			for bench.Loop() {
				tried, result := c.search(bench, 0, g)
				if tc.full || tc.network == 900 {
					require.False(bench, result.Fits())
					continue
				}
				require.True(bench, result.Fits())
				_, err := tried.Plan()
				require.NoError(bench, err)
			}
		})
	}
}
