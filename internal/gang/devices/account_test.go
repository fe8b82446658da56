package devices

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/gang/search"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// hasCPUs is the number of CPUs of the node. The devices of pool "cheap" take one each, those of pool "dear" three.
const hasCPUs = 4

var cpusOf = map[string]int{"cheap": 1, "dear": 3}

// cpuNode is a node of which pods take CPUs.
type cpuNode struct{ taken int }

// cpuBooks implements Books for one node.
type cpuBooks struct {
	counted []string
	refused string
}

func (b *cpuBooks) Without(int) Room { return new(cpuNode) }

func (b *cpuBooks) Put(node Room, pod *v1.Pod) {
	takes, _ := strconv.Atoi(pod.Annotations["takes"])
	node.(*cpuNode).taken += takes
}

func (b *cpuBooks) Recount(_ int, pods []*v1.Pod) (undo func()) {
	before := b.counted
	b.counted = nil
	for _, pod := range pods {
		b.counted = append(b.counted, pod.Annotations["takes"])
	}
	return func() { b.counted = before }
}

func (b *cpuBooks) Refuse(_, _ int, why string) { b.refused = why }

// cpuAccount implements Account for a pod.
type cpuAccount struct{ pod *v1.Pod }

func (cpuAccount) TakesAlready() bool                             { return false }
func (cpuAccount) IsForOnePod(*resourceapi.AllocationResult) bool { return true }
func (cpuAccount) DecidedForOnePod() []*resourceapi.ResourceClaim { return nil }

func (a cpuAccount) Charge(node Room, open []resourceapi.AllocationResult) (*v1.Pod, string) {
	takes := 0
	for i := range open {
		for _, device := range open[i].Devices.Results {
			takes += cpusOf[device.Pool]
		}
	}
	if node.(*cpuNode).taken+takes > hasCPUs {
		return nil, "too few CPUs"
	}
	counted := a.pod.DeepCopy()
	counted.Annotations = map[string]string{"takes": strconv.Itoa(takes)}
	return counted, ""
}

// cpuSites have the pools in an order, and with an objective in the reverse order.
type cpuSites struct {
	store *inventory.Store
	usage ledger.View
	first string
}

func (s cpuSites) Site(node *v1.Node) allocator.NodeView { return s.ordered(node, s.first) }

func (s cpuSites) Valued(node *v1.Node) allocator.NodeView {
	return s.ordered(node, map[string]string{"cheap": "dear", "dear": "cheap"}[s.first])
}

func (s cpuSites) ordered(node *v1.Node, first string) allocator.NodeView {
	pools := slices.Clone(s.store.OnNode(node))
	slices.SortFunc(pools, func(a, _ *inventory.NodePool) int {
		if a.ID.Name == first {
			return -1
		}
		return 1
	})
	return allocator.NodeView{Node: node, Pools: pools, Usage: s.usage}
}

// accounted is a trial with one node of two cheap and three dear devices, and a class for each pod.
func accounted(t *testing.T, first string, claims ...*builder.ClaimBuilder) (*Trial, *cpuBooks) {
	takes := func(device *resourceapi.Device) {
		device.NodeAllocatableResources = map[v1.ResourceName]resourceapi.NodeAllocatableResource{v1.ResourceCPU: {}}
	}
	pool := func(name string, n int) *resourceapi.ResourceSlice {
		var devices []*builder.DeviceBuilder
		for _, device := range builder.NumberedDevices(name, n) {
			devices = append(devices, device.Attr("kind", name).Modify(takes))
		}
		return builder.Slice(name).OnNode("n0").Devices(devices...).Obj()
	}
	store := inventory.FromSlices([]*resourceapi.ResourceSlice{pool("cheap", 2), pool("dear", 3)}, allocator.InventoryOptions(allocator.Supported))
	books := new(cpuBooks)
	world := World{Solver: solver, Nodes: []*v1.Node{builder.Node("n0")}, Sites: cpuSites{store, ledger.New(), first}, Books: books}
	for i, claim := range claims {
		object := claim.Obj()
		object.UID = types.UID("uid-" + object.Name)
		pod := builder.Pod("p" + strconv.Itoa(i))
		world.Classes = append(world.Classes, []Pod{{Pod: pod, Open: []*resourceapi.ResourceClaim{object}, Account: cpuAccount{pod}}})
	}
	return New(t.Context(), world), books
}

func anyDevice(name string) *builder.ClaimBuilder {
	return builder.Claim(name, builder.Request("r", "gpu"))
}

// chosen returns the pools of the planned devices.
func chosen(t *testing.T, trial *Trial) (pools []string) {
	plan, err := trial.Plan()
	require.NoError(t, err)
	for _, allocation := range plan.Allocations {
		for _, device := range allocation.Devices.Results {
			pools = append(pools, device.Pool)
		}
	}
	slices.Sort(pools)
	return pools
}

// TestAccounts: the CPUs that devices take count for all pods on a node together, whatever devices they get.
func TestAccounts(t *testing.T) {
	t.Parallel()
	cheapest := builder.Claim("cheapest", builder.Request("r", "gpu").Where(`device.attributes["`+builder.Driver+`"].kind == "cheap"`).Count(2))
	for name, test := range map[string]struct {
		first  string
		claims []*builder.ClaimBuilder
		want   string
		no     bool
	}{
		"the best":                      {first: "cheap", claims: []*builder.ClaimBuilder{anyDevice("a")}, want: "dear"},
		"the best take too much":        {first: "cheap", claims: []*builder.ClaimBuilder{anyDevice("a"), anyDevice("b")}, want: "cheap cheap"},
		"only the best do":              {first: "dear", claims: []*builder.ClaimBuilder{anyDevice("a"), anyDevice("b")}, want: "cheap cheap"},
		"too much":                      {first: "cheap", claims: []*builder.ClaimBuilder{anyDevice("a"), anyDevice("b"), anyDevice("c")}, no: true},
		"another takes the first's":     {first: "cheap", claims: []*builder.ClaimBuilder{anyDevice("a"), cheapest}, no: true},
		"a claim of one pod used twice": {first: "cheap", claims: []*builder.ClaimBuilder{anyDevice("a"), anyDevice("a")}, no: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial, books := accounted(t, test.first, test.claims...)
			for class := range test.claims {
				answer := trial.Add(class, 0)
				if last := class == len(test.claims)-1; last && test.no {
					require.Equal(t, search.No, answer)
					require.NotEmpty(t, books.refused)
					return
				}
				require.Equal(t, search.Yes, answer)
			}
			require.Equal(t, test.want, strings.Join(chosen(t, trial), " "))
		})
	}
}

// TestRecount: a pod that is added changes the devices of one that was there, and what these take. Its removal undoes that.
func TestRecount(t *testing.T) {
	t.Parallel()
	cheap := builder.Claim("b", builder.Request("r", "gpu").Where(`device.attributes["`+builder.Driver+`"].kind == "cheap"`))
	trial, books := accounted(t, "dear", anyDevice("a"), cheap, anyDevice("c"))
	require.Equal(t, search.Yes, trial.Add(0, 0))
	require.Empty(t, books.counted)
	require.Equal(t, search.Yes, trial.Add(1, 0))
	require.Equal(t, []string{"3"}, books.counted)
	require.Equal(t, search.No, trial.Add(2, 0), "the others take all")
	require.Equal(t, []string{"3"}, books.counted)
	trial.Remove()
	require.Empty(t, books.counted)
	require.Equal(t, search.Yes, trial.Add(2, 0), "with cheap devices for both")
	require.Equal(t, []string{"1"}, books.counted)
	trial.Remove()
	require.Empty(t, books.counted)
}
