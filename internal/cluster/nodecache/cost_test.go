package nodecache_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/nodecache"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/noderesources"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// priced is a cluster in which devices cost what the test says, on nodes with 4 CPUs.
type priced struct {
	*cluster
	costs   map[string]float64
	taken   map[string]int64 // CPUs
	late    map[string]int   // devices that are not ready
	rated   map[string]int
	version uint64
	infos   map[string]*framework.NodeInfo
}

func newPriced(nodes int) *priced {
	p := &priced{
		cluster: newCluster(nodes, 2), costs: map[string]float64{}, taken: map[string]int64{}, rated: map[string]int{},
		infos: map[string]*framework.NodeInfo{},
	}
	for i := range nodes {
		p.costs[fmt.Sprintf("n%d", i)] = float64(i)
	}
	p.snapshot()
	return p
}

// snapshot has the rooms follow what is taken.
func (p *priced) snapshot() {
	var infos []fwk.NodeInfo
	for _, name := range slices.Sorted(maps.Keys(p.nodes)) {
		node := p.nodes[name]
		node.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourcePods: resource.MustParse("100k")}
		info := p.infos[name]
		if info == nil {
			info = framework.NewNodeInfo()
			info.SetNode(node)
			p.infos[name] = info
		}
		if have := info.GetRequested().GetMilliCPU(); have != p.taken[name]*1000 {
			pod := &v1.Pod{}
			pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
				v1.ResourceCPU: *resource.NewMilliQuantity(p.taken[name]*1000-have, resource.DecimalSI)}}}}
			info.AddPod(pod)
		}
		infos = append(infos, info)
	}
	p.rooms.Follow(infos, false)
}

func (p *priced) ask(t *testing.T, count, cpus int64) *nodecache.Answer {
	t.Helper()
	answer := p.index.Find(t.Context(), p.asking(t, count, cpus))
	require.NotNil(t, answer)
	return answer
}

func (p *priced) asking(t *testing.T, count, cpus int64) *nodecache.Question {
	task := p.task(count)
	return &nodecache.Question{
		Task: task, Pod: noderesources.Resources{MilliCPU: cpus * 1000, Pods: 1}, Version: p.version,
		Rate: func(ctx context.Context, site allocator.NodeView, room noderesources.Resources) (nodecache.Verdict, error) {
			require.GreaterOrEqual(t, room.MilliCPU, cpus*1000)
			if len(p.nodes) < 20 { // Else they are rated at the same time.
				p.rated[site.Node.Name]++
			}
			outcome, err := task.Check(ctx, site)
			if err != nil {
				return nodecache.Verdict{}, err
			}
			return nodecache.Verdict{Fits: outcome.Fits(), Value: allocator.Value{NotReady: p.late[site.Node.Name], Cost: p.costs[site.Node.Name]}}, nil
		},
	}
}

func best(a *nodecache.Answer, enough, most int) []string {
	return slices.Sorted(maps.Keys(a.Best(enough, most, func(string) bool { return true })))
}

func TestBest(t *testing.T) {
	p := newPriced(6)
	a := p.ask(t, 1, 1)
	require.Equal(t, []string{"n0", "n1"}, best(a, 2, 3))
	require.Len(t, best(a, 100, 100), 6)
	value, known := a.Value("n4")
	require.True(t, known)
	require.Equal(t, allocator.Value{Cost: 4}, value)
	require.Equal(t, []string{"n1", "n3"}, slices.Sorted(maps.Keys(a.Best(2, 3, func(node string) bool { return node != "n0" && node != "n2" }))))

	p.hold("a", "n0", "gpu-0")
	p.costs["n0"] = 2.5
	require.Equal(t, []string{"n1", "n2"}, best(p.ask(t, 1, 1), 2, 3))
	require.Equal(t, []string{"n1", "n2"}, best(p.ask(t, 2, 1), 2, 3), "n0 has one device only")
	p.free("a")
	p.costs["n0"] = 0
	require.Equal(t, []string{"n0", "n1"}, best(p.ask(t, 1, 1), 2, 3))
}

// TestRoom: a node without enough CPU for the pod has devices, but is not among the best.
func TestRoom(t *testing.T) {
	p := newPriced(3)
	require.Equal(t, []string{"n0", "n1", "n2"}, best(p.ask(t, 1, 2), 5, 5))
	p.taken["n0"] = 3
	p.snapshot()
	a := p.ask(t, 1, 2)
	require.Equal(t, []string{"n1", "n2"}, best(a, 5, 5))
	require.True(t, a.Has("n0"))
	_, known := a.Value("n0")
	require.False(t, known)
	require.Equal(t, []string{"n0", "n1", "n2"}, best(p.ask(t, 1, 1), 5, 5))
	p.taken["n0"] = 0
	p.snapshot()
	require.Equal(t, []string{"n0", "n1", "n2"}, best(p.ask(t, 1, 2), 5, 5))
	require.Equal(t, map[string]int{"n0": 3, "n1": 2, "n2": 2}, p.rated, "by both questions, and n0 once more when it had room again")
}

// TestEquals: all that cost the same are named, and others each time if they are too many.
func TestEquals(t *testing.T) {
	p := newPriced(6)
	for name := range p.costs {
		p.costs[name] = 1
	}
	a := p.ask(t, 1, 1)
	require.Len(t, best(a, 2, 10), 6)
	seen := map[string]bool{}
	for range 3 {
		names := best(a, 2, 2)
		require.Len(t, names, 2)
		for _, name := range names {
			seen[name] = true
		}
	}
	require.Len(t, seen, 6)
}

// TestAnotherVersion: what was rated with an earlier version is rated again step by step, the cheapest
// first, and not compared with the rest before.
func TestAnotherVersion(t *testing.T) {
	const nodes, atOnce = 120, 80
	p := newPriced(nodes)
	p.index.Enough, p.index.AtOnce, p.index.Growth = 1, atOnce, atOnce
	p.ask(t, 1, 1)
	p.ask(t, 1, 1) // Now all are known.
	for i := range nodes {
		p.costs[fmt.Sprintf("n%d", i)] = float64(2*nodes - i)
	}
	require.Equal(t, []string{"n0"}, best(p.ask(t, 1, 1), 1, 1), "nothing changed that one could have heard of")
	p.version++
	a := p.ask(t, 1, 1)
	require.Equal(t, []string{fmt.Sprintf("n%d", atOnce-1)}, best(a, 1, 1))
	require.Len(t, best(a, nodes, nodes), atOnce)
	_, known := a.Value(fmt.Sprintf("n%d", nodes-1))
	require.False(t, known)
	require.True(t, a.Has(fmt.Sprintf("n%d", nodes-1)))
	names, ok := a.Names(nodes)
	require.True(t, ok)
	require.Len(t, names, nodes, "where there are devices is known all the same")

	a = p.ask(t, 1, 1)
	require.Equal(t, []string{fmt.Sprintf("n%d", nodes-1)}, best(a, 1, 1))
	require.Len(t, best(a, nodes, nodes), nodes)
}

// TestRatedMeanwhile: what changed after another version came, and was rated for that, is not rated once more, nor
// remembered for that without end.
func TestRatedMeanwhile(t *testing.T) {
	const nodes = 1200
	p := newPriced(nodes)
	looks := p.counted(p.index.Enough, nodes)
	p.index.Growth = nodes
	p.ask(t, 1, 1)
	require.EqualValues(t, nodes, looks.Load())
	for range 3 {
		p.version++
		p.ask(t, 1, 1)
		for i := range nodes {
			p.index.NodeChanged(fmt.Sprintf("n%d", i))
		}
		p.ask(t, 1, 1)
		looks.Store(0)
		require.Len(t, best(p.ask(t, 1, 1), nodes, nodes), nodes)
		require.Zero(t, looks.Load())
	}
}

// TestRankingIsThatOfAllCosts changes things at random and compares with sorting everything.
func TestRankingIsThatOfAllCosts(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	p := newPriced(12)
	for range 2_000 {
		node := fmt.Sprintf("n%d", rng.Intn(12))
		p.change(rng.Intn(4), rng, node)
		count, cpus := int64(1+rng.Intn(2)), int64(rng.Intn(3))
		var want []string
		for name, n := range p.nodes {
			outcome, err := p.task(count).Check(t.Context(), allocator.NodeView{Node: n, Pools: p.store.OnNode(n), Usage: p.ledger})
			require.NoError(t, err)
			if outcome.Fits() && (cpus == 0 || cpus <= 4-p.taken[name]) {
				want = append(want, name)
			}
		}
		slices.Sort(want)
		a := p.ask(t, count, cpus)
		require.Equal(t, want, nilIfEmpty(best(a, 100, 100)))
		if len(want) > 0 {
			cheapest := slices.MinFunc(want, func(a, b string) int { return int(p.costs[a] - p.costs[b]) })
			for _, name := range best(a, 1, 100) {
				require.InDelta(t, p.costs[cheapest], p.costs[name], 0)
			}
		}
	}
}

func nilIfEmpty(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	return names
}
