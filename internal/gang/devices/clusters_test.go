package devices_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/quartermaster-dra/quartermaster/internal/gang/devices"
	"github.com/quartermaster-dra/quartermaster/internal/gang/search"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// isModel is the attribute by which requests choose devices.
const isModel = `device.attributes["gpu.example.com"].model == `

// classes are the DeviceClasses of all tests: any device, and those of one model.
type classes map[string]*resourceapi.DeviceClass

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := c[name]; class != nil {
		return class, nil
	}
	return nil, fmt.Errorf("class %s is not there", name)
}

func (c classes) List() (list []*resourceapi.DeviceClass, _ error) {
	for _, class := range c {
		list = append(list, class)
	}
	return list, nil
}

func newSolver() *allocator.Solver {
	known := make(classes)
	for _, class := range []*resourceapi.DeviceClass{
		b.Class("any"), b.Class("x", isModel+`"x"`), b.Class("y", isModel+`"y"`), b.Class("whole", isModel+`"whole"`), b.Class("half", isModel+`"half"`),
	} {
		known[class.Name] = class
	}
	return &allocator.Solver{Features: allocator.Supported, Classes: known, Evaluator: selector.NewEvaluator(cel.NewCache(50, cel.Features{}))}
}

// cluster has nodes with devices and CPU, and the claims that hold them.
type cluster struct {
	solver *allocator.Solver
	nodes  []*v1.Node
	store  *inventory.Store
	ledger *ledger.Ledger
	// cpu is the free CPU of each node, nil if nothing limits it.
	cpu    []int
	shared bool
}

// newCluster returns a cluster of nodes n0, n1 and so on, each in the given zone.
func newCluster(zones []string, slices ...*b.SliceBuilder) *cluster {
	c := &cluster{solver: newSolver(), ledger: ledger.New()}
	for i, zone := range zones {
		c.nodes = append(c.nodes, b.Node(fmt.Sprintf("n%d", i), "zone", zone))
	}
	c.publish(slices...)
	return c
}

func (c *cluster) publish(slices ...*b.SliceBuilder) {
	var published []*resourceapi.ResourceSlice
	for _, slice := range slices {
		object := slice.Obj()
		c.shared = c.shared || object.Spec.NodeName == nil
		published = append(published, object)
	}
	c.store = inventory.FromSlices(published, allocator.InventoryOptions(c.solver.Features))
}

func (c *cluster) Site(node *v1.Node) allocator.NodeView {
	return allocator.NodeView{Node: node, Pools: c.store.OnNode(node), Usage: c.ledger}
}

func (c *cluster) Valued(node *v1.Node) allocator.NodeView {
	site := c.Site(node)
	site.Objective = &allocator.Objective{}
	return site
}

// hold puts a claim's allocation into the ledger.
func (c *cluster) hold(claim *resourceapi.ResourceClaim) {
	c.ledger.Refresh(claim.Namespace+"/"+claim.Name, func() *resourceapi.ResourceClaim { return claim })
}

// keep puts the planned allocations of claims into the ledger.
func (c *cluster) keep(t *testing.T, tried *devices.Trial) {
	plan, err := tried.Plan()
	require.NoError(t, err)
	for _, assignment := range plan.Assignments {
		for _, claim := range assignment.Claims {
			claim.Status.Allocation = plan.Allocations[claim.UID]
			c.hold(claim)
		}
	}
}

// group holds the pods of a class, and the CPU that each of them needs.
type group struct {
	pods []devices.Pod
	cpu  int
}

// podsWith returns pods, each with claims of its own.
func podsWith(name string, n int, claims ...*b.ClaimBuilder) group {
	var g group
	for i := range n {
		pod := devices.Pod{Pod: b.Pod(fmt.Sprintf("%s-%d", name, i))}
		for j, claim := range claims {
			own := claim.Obj()
			own.Name = fmt.Sprintf("%s-%d-%d", name, i, j)
			own.UID = types.UID("uid-" + own.Name)
			pod.Open = append(pod.Open, own)
		}
		g.pods = append(g.pods, pod)
	}
	return g
}

// with adds one more claim to all pods.
func (g group) with(claim *resourceapi.ResourceClaim) group {
	for i := range g.pods {
		g.pods[i].Open = append(g.pods[i].Open, claim)
	}
	return g
}

func (g group) needing(cpu int) group {
	g.cpu = cpu
	return g
}

// allocatedOn are claims that are allocated on the node of that name.
type allocatedOn string

func (o allocatedOn) UsableOn(node *v1.Node) bool { return node.Name == string(o) }

// on makes the pods use claims that are allocated on a node.
func (g group) on(name string) group {
	for i := range g.pods {
		g.pods[i].Allocated = allocatedOn(name)
	}
	return g
}

func (c *cluster) trial(t testing.TB, groups ...group) *devices.Trial {
	world := devices.World{Solver: c.solver, Nodes: c.nodes, Sites: c, Shared: c.shared}
	if c.cpu != nil {
		world.Others = &cpuOnly{free: slices.Clone(c.cpu), groups: groups}
	}
	for _, g := range groups {
		world.Classes = append(world.Classes, g.pods)
	}
	return devices.New(t.Context(), world)
}

// search looks for nodes for at least need of the pods, for all if need is 0.
func (c *cluster) search(t testing.TB, need int, groups ...group) (*devices.Trial, search.Result) {
	tried := c.trial(t, groups...)
	problem := search.Problem{Need: need, Apart: tried.Apart(), Steps: 2000}
	for i := range c.nodes {
		problem.Nodes = append(problem.Nodes, i)
	}
	for _, g := range groups {
		problem.Classes = append(problem.Classes, search.Class{Pods: len(g.pods)})
		if need == 0 {
			problem.Need += len(g.pods)
		}
	}
	return tried, search.Search(t.Context(), problem, tried)
}

// cpuOnly is Others for tests.
type cpuOnly struct {
	free   []int
	groups []group
	added  [][2]int
}

func (c *cpuOnly) Add(class, node int, _ *v1.Pod) search.Answer {
	if c.free[node] < c.groups[class].cpu {
		return search.No
	}
	c.free[node] -= c.groups[class].cpu
	c.added = append(c.added, [2]int{class, node})
	return search.Yes
}

func (c *cpuOnly) Remove() {
	last := c.added[len(c.added)-1]
	c.added = c.added[:len(c.added)-1]
	c.free[last[1]] += c.groups[last[0]].cpu
}

// planned returns the plan for the placed pods, after checking that each open claim of a pod has an allocation that can
// be used on the pod's node, of devices that exist there, and that no device is used twice.
func (c *cluster) planned(t testing.TB, tried *devices.Trial) map[string][]string {
	plan, err := tried.Plan()
	require.NoError(t, err)
	c.ledger.Pools = func(id inventory.PoolID) *inventory.NodePool { return c.store.Pool(id).Everywhere() }
	chosen := make(map[string][]string)
	holder := make(map[string]types.UID)
	for _, assignment := range plan.Assignments {
		at := slices.IndexFunc(c.nodes, func(node *v1.Node) bool { return node.Name == assignment.Node })
		for _, claim := range assignment.Claims {
			allocation := plan.Allocations[claim.UID]
			require.NotNil(t, allocation, "claim %s of pod %s", claim.Name, assignment.Pod.Name)
			requireUsable(t, allocation, c.nodes[at])
			if _, known := chosen[claim.Name]; !known {
				require.NoError(t, c.ledger.AddInFlight(ledger.RefTo(claim), "test", allocation), "all fits together")
				defer c.ledger.RemoveInFlight(claim.UID, "test")
			}
			chosen[claim.Name] = nil
			for _, r := range allocation.Devices.Results {
				device := r.Pool + "/" + r.Device
				pool := c.poolOn(c.nodes[at], r.Pool)
				require.NotNil(t, pool, "node %s reaches pool %s", assignment.Node, r.Pool)
				position, found := pool.Position(r.Device)
				require.True(t, found && pool.Reachable.Has(position), "node %s reaches %s", assignment.Node, device)
				if other, held := holder[device]; held {
					require.Equal(t, other, claim.UID, "%s is one claim's", device)
				}
				holder[device] = claim.UID
				chosen[claim.Name] = append(chosen[claim.Name], device)
			}
		}
	}
	return chosen
}

func (c *cluster) poolOn(node *v1.Node, name string) *inventory.NodePool {
	for _, pool := range c.store.OnNode(node) {
		if pool.ID.Name == name {
			return pool
		}
	}
	return nil
}

func requireUsable(t testing.TB, allocation *resourceapi.AllocationResult, node *v1.Node) {
	if allocation.NodeSelector == nil {
		return
	}
	selector, err := nodeaffinity.NewNodeSelector(allocation.NodeSelector)
	require.NoError(t, err)
	require.True(t, selector.Match(node), "the allocation can be used on node %s", node.Name)
}

// counts returns how many pods were placed on each node.
func (c *cluster) counts(result search.Result) []int {
	counts := make([]int, len(c.nodes))
	for _, assignment := range result.Assignments {
		counts[assignment.Node]++
	}
	return counts
}

// inZones makes a slice reachable from some zones.
func inZones(zones ...string) func(*resourceapi.ResourceSlice) {
	return func(slice *resourceapi.ResourceSlice) {
		slice.Spec.NodeSelector = b.NodeSelector("zone", "")
		slice.Spec.NodeSelector.NodeSelectorTerms[0].MatchExpressions[0].Values = zones
	}
}
