package allocator_test

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestReasonsOfManyNodesAreFew looks for devices on a thousand nodes with a random number of held devices each.
// kube-scheduler counts the nodes for each distinct text and puts all texts into one message, so there must be few.
func TestReasonsOfManyNodesAreFew(t *testing.T) {
	numa := func(n int) []*b.DeviceBuilder { return numbered(gpus(n), "numa", 0, 1) }
	tests := map[string]struct {
		shapes   [][]*b.DeviceBuilder // of the nodes, one is picked at random
		claims   []*b.ClaimBuilder
		distinct int // reasons
	}{
		"equal nodes, 4 of 8":              {[][]*b.DeviceBuilder{gpus(8)}, []*b.ClaimBuilder{wants(4)}, 4},
		"equal nodes, all":                 {[][]*b.DeviceBuilder{gpus(8)}, []*b.ClaimBuilder{wantsAll()}, 8},
		"equal nodes, 3 on a NUMA node":    {[][]*b.DeviceBuilder{numa(8)}, []*b.ClaimBuilder{wants(3).Match("gpu.example.com/numa")}, 4},
		"equal nodes, two claims":          {[][]*b.DeviceBuilder{gpus(8)}, []*b.ClaimBuilder{wants(4), b.Claim("more", b.Request("gpu", "gpu").Count(2))}, 6},
		"no, 4 or 8 devices, 2 are wanted": {[][]*b.DeviceBuilder{nil, gpus(4), gpus(8)}, []*b.ClaimBuilder{wants(2)}, 5},
		"all tainted, 1 of 8":              {[][]*b.DeviceBuilder{tainted(8, gpus(8))}, []*b.ClaimBuilder{wants(1)}, 1},
		"sometimes tainted, 8 wanted":      {[][]*b.DeviceBuilder{gpus(8), tainted(1, gpus(8)), tainted(4, gpus(8))}, []*b.ClaimBuilder{wants(8)}, 21},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reasons := reasonsOnNodes(t, 1000, tc.shapes, tc.claims)
			require.Len(t, reasons, tc.distinct)
		})
	}
}

// reasonsOnNodes counts the nodes without a solution by the reason.
func reasonsOnNodes(t *testing.T, nodes int, shapes [][]*b.DeviceBuilder, claims []*b.ClaimBuilder) map[string]int {
	random := rand.New(rand.NewSource(1))
	solver := cluster{}.solver()
	store := inventory.NewStore(allocator.InventoryOptions(solver.Features))
	usage := ledger.New()
	for i := range nodes {
		node := fmt.Sprintf("node-%d", i)
		devices := shapes[random.Intn(len(shapes))]
		if len(devices) == 0 {
			continue
		}
		slice := b.NodeSlice(node, devices...).Obj()
		store.RefreshSlice(node, func() *resourceapi.ResourceSlice { return slice })
		held := names("gpu", len(devices))
		random.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
		holder := heldBy("on-"+node, node, held[:random.Intn(len(held)+1)]...)
		usage.Refresh(holder.Namespace+"/"+holder.Name, func() *resourceapi.ResourceClaim { return holder })
	}
	task := solver.Prepare(objects(claims))
	reasons := make(map[string]int)
	for i := range nodes {
		node := b.Node(fmt.Sprintf("node-%d", i))
		outcome, err := task.Solve(t.Context(), allocator.NodeView{Node: node, Pools: store.OnNode(node), Usage: usage})
		require.NoError(t, err)
		if !outcome.Fits() {
			reasons[outcome.Reason()]++
		}
	}
	return reasons
}
