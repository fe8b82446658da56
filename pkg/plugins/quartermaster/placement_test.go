package quartermaster

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2/ktesting"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
)

// roomyNodes have two GPUs each and room for many pods; on one of them, a GPU is in use.
func roomyNodes(n, used int) []runtime.Object {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	objects := gpuNodes(2, names...)
	for _, object := range objects {
		if node, is := object.(*v1.Node); is {
			node.Labels["odd"] = fmt.Sprint(len(node.Name)%2 == 1)
			node.Status.Allocatable = builder.Resources("cpu", "8", "memory", "16Gi", "pods", "110")
		}
	}
	name := fmt.Sprintf("n%d", used)
	return plus(objects, gpus("held", 1).Allocated(name, "gpu-0"), gpus("mine", 1).Obj(), gpus("two", 2).Obj())
}

// TestBestNodesAreNamed: with more nodes than are looked at, the one that is used in part is always
// among those that PreFilter names, gets all points, and is chosen with its other GPU.
func TestBestNodesAreNamed(t *testing.T) {
	t.Parallel()
	pod := newPod("p", uses("mine"))
	inCluster(t, plus(roomyNodes(150, 77), pod), func(t *testing.T, f *fixture) {
		p := newFullProfile(f, Name, "Evictor")
		p.preFilter(f, pod)
		for range 3 {
			_, named := p.preFilter(f, pod)
			require.Len(t, named, mostBest)
			require.Contains(t, named, "n77")
		}
		_, points := f.mustBegin(pod).filter().scores()
		for name, score := range points {
			if name == "n77" {
				require.EqualValues(t, 100, score)
			} else {
				require.Less(t, score, int64(100), name)
			}
		}
		result := f.schedule(pod)
		require.Empty(t, result.phase, "%v", result.status)
		require.Equal(t, "n77", result.node)
	})
}

// TestOthersThanTheBest: nodes that the pod may not be on are not named, and if those that are will not do
// for another plugin, the pod is tried again on all nodes, without anybody being evicted.
func TestOthersThanTheBest(t *testing.T) {
	t.Parallel()
	pod := newPod("p", uses("mine"))
	pod.Spec.NodeSelector = map[string]string{"odd": "true"}
	inCluster(t, plus(roomyNodes(150, 77), pod), func(t *testing.T, f *fixture) {
		p := newFullProfile(f, Name, "Evictor")
		p.preFilter(f, pod)
		state, named := p.preFilter(f, pod)
		require.NotEmpty(t, named)
		require.False(t, slices.ContainsFunc(named, func(name string) bool { return len(name)%2 == 0 }), "%v", named)

		status := p.reject(f, state, pod, "n100")
		require.True(t, status.IsSuccess(), "%v", status)
		require.Contains(t, status.Message(), "others may; looking again")
		require.Empty(t, p.evictor.asked)
		_, named = p.preFilter(f, pod)
		require.Nil(t, named, "the next attempt looks at all nodes")
	})
}

// TestSpreadWhereConfigured: a class of its own strategy goes to nodes that nobody uses.
func TestSpreadWhereConfigured(t *testing.T) {
	t.Parallel()
	pod := newPod("p", uses("mine"))
	inCluster(t, plus(roomyNodes(3, 1), pod), func(t *testing.T, f *fixture) {
		f.pl.objectives = newObjectives(&QuartermasterArgs{
			Strategy: LeastFragmentation, ClassStrategies: map[string]Strategy{"gpu": Spread}, Closeness: f.pl.args.Closeness,
		})
		result := f.schedule(pod)
		require.Empty(t, result.phase, "%v", result.status)
		require.NotEqual(t, "n1", result.node)
	})
}

// TestSaysWhatItChose: node, devices, what they cost, and the node that came second.
func TestSaysWhatItChose(t *testing.T) {
	t.Parallel()
	pod := newPod("p", uses("mine"))
	inCluster(t, plus(roomyNodes(3, 1), pod), func(t *testing.T, f *fixture) {
		a := f.mustBegin(pod).filter()
		a.best()
		c, err := cycleOf(a.state)
		require.NoError(t, err)
		node, err := f.pl.nodes.Get("n1")
		require.NoError(t, err)
		outcome, err := c.task.Solve(f.ctx, f.pl.valuedView(c, node))
		require.NoError(t, err)
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(4)))
		c.tell(logger, "n1", outcome)
		said := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
		for _, part := range []string{"Chose devices", `node="n1"`, "gpu.example.com/n1/gpu-1", `strategy="leastFragmentation"`, "value=", "runnerUp="} {
			require.Contains(t, said, part)
		}
	})
}

// TestLearnsOncePerPod: however often a pod is tried, it counts once, also if it fits nowhere.
func TestLearnsOncePerPod(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(roomyNodes(2, 1), gpus("many", 3).Obj()), func(t *testing.T, f *fixture) {
		before := f.pl.state.demand.Seen()
		pod := newPod("p", uses("many"))
		f.create(pod)
		f.settle()
		for range 3 {
			require.Equal(t, "Filter", f.schedule(pod).phase)
		}
		require.Equal(t, before+1, f.pl.state.demand.Seen())
	})
}
