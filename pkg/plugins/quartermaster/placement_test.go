package quartermaster

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/config"
	"github.com/quartermaster-dra/quartermaster/test/builder"
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

// TestBestNodesAreNamed: among more nodes than Filter looks at, the one in use in part is always among those that
// PreFilter returns once the cache knows all nodes, gets all points, and is chosen with its other GPU.
func TestBestNodesAreNamed(t *testing.T) {
	t.Parallel()
	pod := newPod("p", uses("mine"))
	inCluster(t, plus(roomyNodes(150, 77), pod), func(t *testing.T, f *fixture) {
		p := newFullProfile(f, Name, "Evictor")
		for range 3 { // The cache looks at 128 of the nodes for the first pod, and at 16 more for each later one.
			p.preFilter(f, pod)
		}
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

// TestOthersThanTheBest: nodes on which the pod may not be are not returned. If another plugin rejects the returned
// ones, the pod is tried again on all nodes, without evictions.
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

// TestSpreadWhereConfigured: a class with its own strategy prefers unused nodes.
func TestSpreadWhereConfigured(t *testing.T) {
	t.Parallel()
	pod := newPod("p", uses("mine"))
	inCluster(t, plus(roomyNodes(3, 1), pod), func(t *testing.T, f *fixture) {
		f.pl.objectives = config.NewObjectives(&QuartermasterArgs{
			Strategy: LeastFragmentation, ClassStrategies: map[string]Strategy{"gpu": Spread}, Closeness: f.pl.args.Closeness,
		})
		result := f.schedule(pod)
		require.Empty(t, result.phase, "%v", result.status)
		require.NotEqual(t, "n1", result.node)
	})
}

// TestSaysWhatItChose: the log has the node, devices, their cost, and the second best node.
func TestSaysWhatItChose(t *testing.T) {
	t.Parallel()
	pod := newPod("p", uses("mine"))
	inCluster(t, plus(roomyNodes(3, 1), pod), func(t *testing.T, f *fixture) {
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(4)))
		f.ctx = klog.NewContext(f.ctx, logger)
		result := f.schedule(pod)
		require.Equal(t, "n1", result.node, "%v", result.status)
		said := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
		for _, part := range []string{"Chose devices", `node="n1"`, "gpu.example.com/n1/gpu-1", `strategy="leastFragmentation"`, "value=", "runnerUp=",
			"keptWhole=0", "firstSolutionKeepsWhole=0"} {
			require.Contains(t, said, part)
		}
	})
}

// TestLearnsOncePerPod: a pod counts once, however often it is tried, even if it fits nowhere.
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

// TestWhatNoNodeHasIsNotLearnt: the requests of a pod that fits nowhere count, unless no node would be large enough
// without other pods.
func TestWhatNoNodeHasIsNotLearnt(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(roomyNodes(2, 1), gpus("many", 3).Obj(), gpus("more", 3).Obj()), func(t *testing.T, f *fixture) {
		before := f.pl.state.demand.Seen()
		greedy := newPod("greedy", uses("many"), builder.Container("c", "cpu", "1M"))
		large := newPod("large", uses("more"), builder.Container("c", "cpu", "8", "memory", "16Gi"))
		f.create(greedy)
		f.create(large)
		f.settle()
		require.Equal(t, "Filter", f.schedule(greedy).phase)
		require.Equal(t, before, f.pl.state.demand.Seen())
		require.Equal(t, "Filter", f.schedule(large).phase)
		require.Equal(t, before+1, f.pl.state.demand.Seen())
	})
}

// TestLearnsFromDevicesThatMatch: for a pod that fits nowhere, the requested part of a device is computed from matching
// devices.
func TestLearnsFromDevicesThatMatch(t *testing.T) {
	t.Parallel()
	objects := plus(gpuNodes(1), builder.Class("nic", `device.driver == "nic.example.com"`))
	for i := range 12 {
		node := fmt.Sprintf("n%02d", i)
		slice := builder.NodeSlice(node, builder.NumberedDevices("gpu", 1)...)
		if i == 7 {
			slice = builder.NodeSlice(node, builder.Device("nic-0").Shared().Capacity("bandwidth", "100")).OfDriver("nic.example.com")
		}
		roomy := builder.Node(node)
		roomy.Status.Allocatable = builder.Resources("cpu", "8", "memory", "16Gi", "pods", "110")
		objects = plus(objects, roomy, slice.Obj())
	}
	claim := func(name, amount string) *resourceapi.ResourceClaim {
		return builder.Claim(name, builder.Request("r", "nic").Capacity("bandwidth", amount)).Obj()
	}
	held := claim("held", "90")
	held.Status.Allocation = builder.Claim("", builder.Request("r", "nic")).Allocated("n07", "nic-0").Status.Allocation
	held.Status.Allocation.Devices.Results[0].Driver = "nic.example.com"
	held.Status.Allocation.Devices.Results[0].ShareID = ptr.To(types.UID("share"))
	held.Status.Allocation.Devices.Results[0].ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"bandwidth": resource.MustParse("90")}
	inCluster(t, plus(objects, held), func(t *testing.T, f *fixture) {
		for i := range 20 {
			name := fmt.Sprintf("p%d", i)
			pod := newPod(name, uses(name))
			f.create(claim(name, "25"))
			f.create(pod)
			f.settle()
			require.Equal(t, "Filter", f.schedule(pod).phase)
		}
		for _, shape := range f.pl.state.demand.Demand(0).Shapes {
			if request := shape.Requests[0]; request.Kind != 0 {
				require.InDelta(t, 0.25, request.Amount, 1e-9)
			}
		}
		require.Len(t, f.pl.state.demand.Demand(0).Shapes, 2)
	})
}

// TestNobodyIsEvictedForAnAttemptOnTheBest: if another plugin rejects the best nodes, an attempt on all nodes shows
// whether the others fit. Only after that may preemption run.
func TestNobodyIsEvictedForAnAttemptOnTheBest(t *testing.T) {
	t.Parallel()
	objects := roomyNodes(150, 77)
	for i := range 147 {
		if i != 77 {
			objects = plus(objects, gpus(fmt.Sprintf("c-%d", i), 2).Allocated(fmt.Sprintf("n%d", i), "gpu-0", "gpu-1"))
		}
	}
	pod := newPod("p", uses("mine"))
	inCluster(t, plus(objects, pod), func(t *testing.T, f *fixture) {
		p := newFullProfile(f, Name, "Evictor")
		p.preFilter(f, pod)
		state, named := p.preFilter(f, pod)
		require.ElementsMatch(t, []string{"n77", "n147", "n148", "n149"}, named)
		// Others reject all of these, and there is nothing on the rest.
		before := len(f.activator.names())
		statuses := framework.NewDefaultNodeToStatus()
		_, status := p.framework.RunPostFilterPlugins(f.ctx, state, pod, statuses)
		require.True(t, status.IsSuccess(), "%v", status)
		require.Contains(t, status.Message(), "looking again")
		require.Empty(t, p.evictor.asked)
		require.Greater(t, len(f.activator.names()), before)

		state, named = p.preFilter(f, pod)
		require.Nil(t, named)
		_, status = p.framework.RunPostFilterPlugins(f.ctx, state, pod, statuses)
		require.Equal(t, fwk.Unschedulable, status.Code())
		require.Equal(t, []string{"p"}, p.evictor.asked, "now it is preemption's turn")
	})
}

// TestSeedsFromPodsThatExist: those with claims, and those with extended resources for which a claim was made.
func TestSeedsFromPodsThatExist(t *testing.T) {
	t.Parallel()
	bound := func(pod *v1.Pod) *v1.Pod {
		pod.Spec.NodeName = "n0"
		return pod
	}
	extended := bound(newPod("extended"))
	extended.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "made"}
	pod := newPod("p", uses("mine"))
	objects := plus(roomyNodes(2, 1), gpus("a", 1).Allocated("n0", "gpu-0"), gpus("made", 1).Allocated("n0", "gpu-1"),
		bound(newPod("with-claim", uses("a"))), extended, bound(newPod("without")), pod)
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		require.Zero(t, f.pl.state.demand.Seen())
		f.mustBegin(pod)
		require.Equal(t, 2, f.pl.state.demand.Seen())
	})
}

// TestFullNodesFirst: a pod that needs neither CPU nor memory goes to a node without any: no other pod can use the
// devices.
func TestFullNodesFirst(t *testing.T) {
	t.Parallel()
	objects := roomyNodes(4, 1)
	for _, object := range objects {
		node, is := object.(*v1.Node)
		switch {
		case is && node.Name == "n3":
			node.Status.Allocatable = builder.Resources("cpu", "0", "memory", "0", "pods", "110")
		case is && node.Name == "n1":
			node.Status.Allocatable = builder.Resources("cpu", "2", "memory", "4Gi", "pods", "110")
		}
	}
	for i := range 20 { // They show that pods request devices together with CPU and memory.
		name := fmt.Sprintf("old-%d", i)
		pod := newPod(name, uses(name), builder.Container("c", "cpu", "2", "memory", "4Gi"))
		pod.Spec.NodeName = "elsewhere"
		objects = plus(objects, pod, gpus(name, 1).Obj())
	}
	pod := newPod("p", uses("mine"))
	inCluster(t, plus(objects, pod), func(t *testing.T, f *fixture) {
		result := f.schedule(pod)
		require.Empty(t, result.phase, "%v", result.status)
		require.Equal(t, "n3", result.node)
	})
}
