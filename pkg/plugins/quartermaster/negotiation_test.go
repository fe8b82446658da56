package quartermaster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

func TestClassicNegotiation(t *testing.T) {
	t.Parallel()
	inClassicCluster(t, plus(gpuNodes(0, "a", "b", "c"), byController("one"), byController("two"), newPod("pod", uses("one"), uses("two"))), func(t *testing.T, f *classicFixture) {
		pod := f.pod("pod")
		first := f.schedule(pod)
		require.Equal(t, "Reserve", first.phase)
		require.Equal(t, fwk.Pending, first.status.Code())
		require.Contains(t, first.text(), "waiting for the drivers of claims default/one and default/two to say which nodes are suitable")
		f.settle()
		require.Equal(t, api.PodSchedulingContextSpec{PotentialNodes: []string{"a", "b", "c"}}, f.contexts.Stored("pod").Spec)

		f.answer("pod", "one", "a")
		require.Empty(t, f.woken(), "the other driver has not said anything")
		f.answer("pod", "two", "b")
		require.Equal(t, []string{"default/pod"}, f.woken())
		second := f.schedule(pod)
		require.Equal(t, "Reserve", second.phase)
		require.Equal(t, "claim default/one cannot be allocated for this node (so its driver says in unsuitableNodes)", second.reasons["a"])
		require.Equal(t, "claim default/two cannot be allocated for this node (so its driver says in unsuitableNodes)", second.reasons["b"])
		f.settle()
		require.Equal(t, "c", f.contexts.Stored("pod").Spec.SelectedNode)

		f.allocateOn("one", "c")
		require.Equal(t, []string{"default/pod"}, f.woken())
		require.Equal(t, fwk.Pending, f.schedule(pod).status.Code())
		f.allocateOn("two", "c")
		require.Equal(t, []string{"default/pod"}, f.woken())
		last := f.schedule(pod)
		require.Empty(t, last.phase, last.text())
		require.Equal(t, "c", last.node)
		for _, name := range []string{"one", "two"} {
			require.Equal(t, []string{"pod"}, consumerNames(f.claim(name)))
			require.Empty(t, f.claim(name).Finalizers, "it is not ours")
		}
	})
}

// The context goes when the pod is bound. What was reserved goes if it is not.
func TestClassicEnd(t *testing.T) {
	t.Parallel()
	inClassicCluster(t, plus(gpuNodes(0, "a"), byController("one"), newPod("pod", uses("one"))), func(t *testing.T, f *classicFixture) {
		pod := f.pod("pod")
		f.schedule(pod)
		f.settle()
		require.Equal(t, "a", f.contexts.Stored("pod").Spec.SelectedNode)
		f.allocateOn("one", "a")

		a := f.mustBegin(pod).filter()
		require.Nil(t, a.reserve("a"))
		require.Nil(t, a.preBind("a"))
		require.Equal(t, []string{"pod"}, consumerNames(f.claim("one")))
		a.unreserve("a")
		require.Empty(t, consumerNames(f.claim("one")))
		require.NotNil(t, f.claim("one").Status.Allocation)
		f.settle()

		a = f.mustBegin(pod).filter()
		require.Nil(t, a.reserve("a"))
		require.Nil(t, a.preBind("a"))
		pod.Spec.NodeName = "a"
		f.replace(pod)
		a.unreserve("a")
		require.Equal(t, []string{"pod"}, consumerNames(f.claim("one")), "the pod is bound all the same")
		f.pl.PostBind(f.ctx, a.state, pod, "a")
		f.settle()
		require.Nil(t, f.contexts.Stored("pod"))
	})
}

// A claim that is allocated where the pod cannot run is freed by its driver.
func TestClassicBlockedClaim(t *testing.T) {
	t.Parallel()
	inClassicCluster(t, plus(gpuNodes(0, "a", "b"), byController("one"), newPod("pod", uses("one")), newPod("other")), func(t *testing.T, f *classicFixture) {
		pod := f.pod("pod")
		f.schedule(pod)
		f.settle()
		selected := f.contexts.Stored("pod").Spec.SelectedNode
		require.NotEmpty(t, selected)
		f.allocateOn("one", "elsewhere")
		f.changeClaim("one", reservedFor("other"))
		f.settle()
		blocked := f.schedule(pod)
		require.Equal(t, "Filter", blocked.phase)
		require.Empty(t, blocked.text(), "somebody else uses it")

		f.changeClaim("one", func(claim *resourceapi.ResourceClaim) {
			claim.Status.ReservedFor = nil
			reservedFor("pod")(claim)
		})
		f.settle()
		blocked = f.schedule(pod)
		require.Equal(t, "the driver of claim default/one is asked to deallocate it", blocked.text())
		f.woken()
		f.settle()
		require.Empty(t, f.contexts.Stored("pod").Spec.SelectedNode, "nobody is to allocate it for that node again")
		require.True(t, conversion.AlphaClaimOf(f.claim("one")).DeallocationRequested)
		require.Empty(t, f.claim("one").Status.ReservedFor)
		require.Contains(t, f.schedule(pod).text(), "claim default/one is about to be deallocated")
		f.settle()
		f.woken()

		f.changeClaim("one", func(claim *resourceapi.ResourceClaim) {
			claim.Status.Allocation = nil
			conversion.SetAlphaClaim(claim, conversion.AlphaClaimOf(byController("one")))
		})
		f.settle()
		require.Equal(t, []string{"default/pod"}, f.woken())
		require.Equal(t, "Reserve", f.schedule(pod).phase)
		f.settle()
		require.NotEmpty(t, f.contexts.Stored("pod").Spec.SelectedNode)
	})
}

// Pods wait for what only drivers can do, and are woken when it is done.
func TestClassicClaimsThatWait(t *testing.T) {
	t.Parallel()
	inClassicCluster(t, plus(gpuNodes(0, "a"), byController("now", immediate), newPod("pod", uses("now"))), func(t *testing.T, f *classicFixture) {
		require.Contains(t, f.schedule(f.pod("pod")).text(), "claim default/now is not allocated; waiting for its driver")
		f.allocateOn("now", "a")
		require.Equal(t, []string{"default/pod"}, f.woken())
		require.Empty(t, f.schedule(f.pod("pod")).phase)
		require.Nil(t, f.contexts.Stored("pod"), "there was nothing to negotiate")
	})
	// Only the request to deallocate changes, which v1 does not know.
	inClassicCluster(t, plus(gpuNodes(0, "a"), byController("going", requested), newPod("pod", uses("going"))), func(t *testing.T, f *classicFixture) {
		require.Contains(t, f.schedule(f.pod("pod")).text(), "about to be deallocated")
		f.changeClaim("going", func(claim *resourceapi.ResourceClaim) {
			conversion.SetAlphaClaim(claim, conversion.AlphaClaimOf(byController("going")))
		})
		f.settle()
		require.Equal(t, []string{"default/pod"}, f.woken())
	})
}

// Devices that the scheduler allocates are not taken before drivers have allocated theirs.
func TestClassicBesideStructured(t *testing.T) {
	t.Parallel()
	inClassicCluster(t, plus(gpuNodes(1, "a", "b"), byController("theirs"), gpus("ours", 1).Obj(), newPod("pod", uses("theirs"), uses("ours"))), func(t *testing.T, f *classicFixture) {
		pod := f.pod("pod")
		require.Equal(t, fwk.Pending, f.schedule(pod).status.Code())
		f.settle()
		require.Empty(t, f.inFlight())
		require.Empty(t, f.contexts.Stored("pod").Spec.SelectedNode, "it is not known yet which node will do")
		f.answer("pod", "theirs", "a")
		require.Equal(t, fwk.Pending, f.schedule(pod).status.Code())
		f.settle()
		require.Equal(t, "b", f.contexts.Stored("pod").Spec.SelectedNode)
		f.allocateOn("theirs", "b")
		last := f.schedule(pod)
		require.Empty(t, last.phase, last.text())
		require.Equal(t, []string{"b/gpu-0"}, deviceNames(f.claim("ours")))
		require.Equal(t, []string{"pod"}, consumerNames(f.claim("ours")))
		require.Equal(t, []string{"pod"}, consumerNames(f.claim("theirs")))
	})
}

// A class that limits nodes, or sets the allocator, may appear late.
func TestClassicClasses(t *testing.T) {
	t.Parallel()
	late := func(fields *conversion.AlphaClaim) {
		fields.Allocator, fields.Classes = conversion.ByClass, []string{"late"}
	}
	inClassicCluster(t, plus(gpuNodes(1, "a", "b"), byController("one", late), newPod("pod", uses("one"))), func(t *testing.T, f *classicFixture) {
		pod := f.pod("pod")
		require.Contains(t, f.schedule(pod).text(), "claim default/one: resource class late does not exist")
		class := builder.Class("late")
		require.True(t, f.wakesAfterClass(pod, nil, class))
		require.False(t, f.wakesAfterClass(pod, nil, builder.Class("another")))
		require.False(t, f.wakesAfterClass(pod, class, class.DeepCopy()))
		onlyB := class.DeepCopy()
		conversion.SetAlphaClass(onlyB, conversion.AlphaClass{SuitableNodes: builder.NodeSelector("kubernetes.io/hostname", "b")})
		require.True(t, f.wakesAfterClass(pod, class, onlyB))
		f.create(onlyB)
		f.settle()
		outcome := f.schedule(pod)
		require.Equal(t, map[string]string{"a": "claim default/one: class late is not for this node (suitableNodes)"}, outcome.reasons)
		f.settle()
		require.Equal(t, "b", f.contexts.Stored("pod").Spec.SelectedNode)
	})
}

func (f *classicFixture) wakesAfterClass(pod *v1.Pod, before, after *resourceapi.DeviceClass) bool {
	e := event{resource: fwk.DeviceClass, action: fwk.Update, oldObj: object(before), newObj: after}
	if before == nil {
		e.action = fwk.Add
	}
	return f.wakes(e, pod)
}

// A claim that was allocated for another pod is left to that pod, until it is gone.
func TestClassicClaimOfAnotherPod(t *testing.T) {
	t.Parallel()
	inClassicCluster(t, plus(gpuNodes(0, "a", "b"), byController("one"), newPod("pod", uses("one")), newPod("other", uses("one"))), func(t *testing.T, f *classicFixture) {
		f.schedule(f.pod("other"))
		f.settle()
		selected := f.contexts.Stored("other").Spec.SelectedNode
		f.allocateOn("one", selected)
		// The pod cannot run on that node, and so it finds none.
		blocked := func() outcome {
			a := f.mustBegin(f.pod("pod"))
			for _, info := range f.nodeInfos() {
				status := f.pl.Filter(f.ctx, a.state, a.pod, info)
				require.Equal(t, info.Node().Name == selected, status.IsSuccess())
			}
			_, status := f.pl.PostFilter(f.ctx, a.state, a.pod, nil)
			f.settle()
			return outcome{status: status}
		}
		require.Empty(t, blocked().text())
		require.False(t, conversion.AlphaClaimOf(f.claim("one")).DeallocationRequested)
		f.woken()

		f.remove(f.pod("other"))
		f.settle()
		require.NoError(t, f.contexts.Delete(f.ctx, "other", metav1.DeleteOptions{})) // By the garbage collector.
		time.Sleep(time.Minute)                                                       // The pod was not rejected a moment ago any more.
		f.settle()
		require.Equal(t, []string{"default/pod"}, f.woken())
		require.Contains(t, blocked().text(), "the driver of claim default/one is asked to deallocate it")
	})
}
