package nodecache_test

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/nodecache"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// counted makes an index that counts how many nodes it looks at.
func (p *priced) counted(enough, atOnce int) *atomic.Int64 {
	looks := new(atomic.Int64)
	p.index = nodecache.New(p.store, p.ledger, &p.rooms, func(name string) *v1.Node {
		looks.Add(1)
		return p.nodes[name]
	})
	p.index.Enough, p.index.AtOnce, p.index.Growth = enough, atOnce, atOnce
	return looks
}

// TestBitByBit: a first pod is looked for until there is a choice of nodes, and each one after it adds some more.
func TestBitByBit(t *testing.T) {
	const nodes = 100
	p := newPriced(nodes)
	looks := p.counted(30, 20)
	p.index.Growth = 15
	for _, want := range []int{40, 55, 70, 85, 100, 100} {
		a := p.ask(t, 1, 1)
		require.EqualValues(t, want, looks.Load())
		require.Len(t, best(a, nodes, nodes), want)
		_, ok := a.Names(nodes)
		require.Equal(t, want == nodes, ok, "whether others have devices is not known")
	}
}

// TestLooksOn: if few nodes fit, all nodes are looked at for the first pod.
func TestLooksOn(t *testing.T) {
	const nodes = 100
	p := newPriced(nodes)
	for i := range nodes - 3 {
		p.hold(fmt.Sprintf("c%d", i), fmt.Sprintf("n%d", i), "gpu-0")
	}
	looks := p.counted(30, 20)
	a := p.ask(t, 2, 1)
	require.EqualValues(t, nodes, looks.Load())
	names, ok := a.Names(3)
	require.True(t, ok)
	require.Equal(t, []string{"n97", "n98", "n99"}, slices.Sorted(maps.Keys(names)))
}

// TestWhereThePodMayRun: nodes that the pod may not run on are of no use to it, and looked at for others later.
func TestWhereThePodMayRun(t *testing.T) {
	const nodes = 200
	p := newPriced(nodes)
	looks := p.counted(30, 20)
	inZone := func(node string) bool {
		number, err := strconv.Atoi(strings.TrimPrefix(node, "n"))
		return err == nil && number%10 == 0
	}
	q := p.asking(t, 1, 1)
	q.Accepts = inZone
	a := p.index.Find(t.Context(), q)
	require.Len(t, a.Best(nodes, nodes, inZone), nodes/10, "all that there are")
	require.EqualValues(t, nodes/10+20, looks.Load(), "and some others, so that all are known one day")
	for range 10 {
		p.index.Find(t.Context(), q)
	}
	require.EqualValues(t, nodes, looks.Load())
}

// TestAllNodes: who wants to know all nodes gets nothing the first time, and everything after that.
func TestAllNodes(t *testing.T) {
	const nodes = 101
	p := newPriced(nodes)
	looks := p.counted(100, 20)
	q := p.asking(t, 1, 1)
	q.All = true
	require.Nil(t, p.index.Find(t.Context(), q))
	require.Zero(t, looks.Load())
	names, ok := p.index.Find(t.Context(), q).Names(nodes)
	require.True(t, ok)
	require.Len(t, names, nodes)

	few := newPriced(100)
	q = few.asking(t, 1, 1)
	q.All = true
	require.NotNil(t, few.index.Find(t.Context(), q))
}

// TestLongAgo: an answer is right again at once, even if more has happened since its last use than
// the log remembers.
func TestLongAgo(t *testing.T) {
	p := newPriced(12)
	p.ask(t, 1, 1)
	p.hold("a", "n3", "gpu-0")
	p.hold("b", "n3", "gpu-1")
	for i := range 20_000 {
		p.index.NodeChanged(fmt.Sprintf("n%d", i%12))
		if i%100 == 0 {
			p.ask(t, 2, 1) // Others ask.
		}
	}
	a := p.ask(t, 1, 1)
	require.False(t, a.Has("n3"))
	require.Len(t, best(a, 12, 12), 11)
}

// TestWhatIsKnownIsTrue changes things at random, asks different questions from time to time and compares all that an answer
// says with a look at each node.
func TestWhatIsKnownIsTrue(t *testing.T) {
	rng := rand.New(rand.NewSource(2))
	const nodes = 40
	p := newPriced(nodes)
	p.index.Enough, p.index.AtOnce, p.index.Growth = 8, 4, 4
	for range 1_000 {
		for range rng.Intn(8) {
			p.changeAnything(rng, fmt.Sprintf("n%d", rng.Intn(nodes+4)))
		}
		count, cpus := int64(1+rng.Intn(3)), int64(rng.Intn(3))
		q := p.asking(t, count, cpus)
		q.Accepts = func(string) bool { return true }
		a := p.index.Find(t.Context(), q)
		fits := map[string]bool{}
		for name := range p.store.LocalNodes() {
			n := p.nodes[name]
			outcome, err := p.task(count).Check(t.Context(), allocator.NodeView{Node: n, Pools: p.store.OnNode(n), Usage: p.ledger})
			require.NoError(t, err)
			fits[name] = outcome.Fits()
			require.False(t, a.Has(name) && !fits[name], name)
			if value, known := a.Value(name); known {
				require.True(t, fits[name] && (cpus == 0 || cpus <= 4-p.taken[name]), name)
				require.InDelta(t, p.costs[name], value.Cost, 0, name)
			}
			outcome.Release()
		}
		if names, ok := a.Names(1000); ok {
			for name := range p.store.LocalNodes() {
				require.Equal(t, fits[name], names.Has(name), name)
			}
			require.Len(t, names, countTrue(fits))
		}
		found := best(a, 1, 1)
		for name, does := range fits {
			require.False(t, does && len(found) == 0 && (cpus == 0 || cpus <= 4-p.taken[name]), "%s would do, and nothing was found", name)
		}
	}
}

func countTrue(of map[string]bool) (n int) {
	for _, is := range of {
		if is {
			n++
		}
	}
	return n
}

func (p *priced) changeAnything(rng *rand.Rand, node string) {
	if p.nodes[node] == nil {
		p.addNode(node)
		p.snapshot()
	}
	p.change(rng.Intn(6), rng, node)
}

// change makes a change of some kind to a node: of the first four, none adds or removes devices.
func (p *priced) change(kind int, rng *rand.Rand, node string) {
	switch kind {
	case 0:
		p.costs[node] = float64(rng.Intn(6))
		p.index.NodeChanged(node)
	case 1:
		p.hold(node+"-claim", node, fmt.Sprintf("gpu-%d", rng.Intn(2)))
	case 2:
		p.free(node + "-claim")
	case 3:
		p.taken[node] = int64(rng.Intn(5))
		p.snapshot()
	case 4:
		p.publish(node, rng.Intn(4))
	case 5:
		p.version++
	}
}

// TestBoundInBytes: however many questions there are, and however many nodes, what is kept is bounded, and asking again gives
// the same answer.
func TestBoundInBytes(t *testing.T) {
	const nodes, perNode = 60, 112
	p := newPriced(nodes)
	p.index.SetBound(10 * perNode * nodes)
	for cpus := range int64(4) {
		for count := range int64(2) {
			for memory := range int64(20) {
				q := p.asking(t, count+1, cpus)
				q.Pod.Memory = -memory // Another question with the same answers.
				require.Len(t, p.index.Find(t.Context(), q).Best(nodes, nodes, func(string) bool { return true }), nodes)
				require.LessOrEqual(t, p.index.Bytes(), 10*perNode*nodes)
			}
		}
	}
	require.Positive(t, p.index.Bytes())
	p.index.SetBound(0)
	require.Len(t, best(p.ask(t, 1, 1), nodes, nodes), nodes, "what is asked at the moment is kept whatever it takes")
}

// TestQuestionsWithoutAnswerAreAccountedFor: what was asked once for all nodes takes memory as well, but not its expressions.
func TestQuestionsWithoutAnswerAreAccountedFor(t *testing.T) {
	p := newPriced(200)
	long := strings.Repeat("x", 100_000)
	for i := range 20 {
		q := p.asking(t, 1, 1)
		q.By, q.All = fmt.Sprint(long, i), true
		require.Nil(t, p.index.Find(t.Context(), q))
	}
	require.GreaterOrEqual(t, p.index.Bytes(), 20*nodecache.AnswerBytes)
	require.Less(t, p.index.Bytes(), len(long), "expressions are not kept")
	p.index.SetBound(5 * nodecache.AnswerBytes)
	q := p.asking(t, 1, 1)
	q.By, q.All = long, true
	require.Nil(t, p.index.Find(t.Context(), q))
	require.LessOrEqual(t, p.index.Bytes(), 5*nodecache.AnswerBytes)
}

// TestAllNodesAlsoWhereThePodMayNotRun: who wants all nodes to be known gets them at once.
func TestAllNodesAlsoWhereThePodMayNotRun(t *testing.T) {
	const nodes = 300
	p := newPriced(nodes)
	q := p.asking(t, 1, 1)
	q.All, q.Accepts = true, func(node string) bool { return strings.HasSuffix(node, "7") }
	require.Nil(t, p.index.Find(t.Context(), q))
	names, ok := p.index.Find(t.Context(), q).Names(nodes)
	require.True(t, ok)
	require.Len(t, names, nodes)
}
