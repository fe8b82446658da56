package quartermaster

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/internal/queue"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestNodeAllocatableBesideNominated: on a node with nominated pods, kube-scheduler calls Filter once with and once without these. The
// devices that leave room for them count in the second call, too.
func TestNodeAllocatableBesideNominated(t *testing.T) {
	takes := func(name, cpus string) *builder.DeviceBuilder {
		return builder.Device(name).Modify(stands(v1.ResourceCPU, mapped(cpus)))
	}
	node := builder.Node("n1")
	node.Status.Allocatable = builder.Resources("cpu", "8", "memory", "4Gi", "pods", "100")
	// The best device is the one that is ready at once.
	slice := builder.NodeSlice("n1", takes("a", "2").BindingCondition("attached").BindingFailureCondition("broken"), takes("b", "6"))
	objects := []runtime.Object{node, builder.Class("gpu"), slice.Obj(), gpus("one", 1).Obj()}
	accounting(t, objects, func(t *testing.T, w *ofNodeWorld) {
		pod := newPod("p", uses("one"))
		w.create(pod)
		w.settle()
		for _, wanted := range []string{"b", "a"} {
			infos := w.infos()
			cs := kube.NewCycleState()
			_, status := w.pl.PreFilter(w.ctx, cs, pod, infos)
			require.Nil(t, status)
			c, err := cycleOf(cs)
			require.NoError(t, err)
			l := &look{cs: cs, cycle: c, info: infos[0], task: c.task}
			if wanted == "a" {
				l.noteUsual("n1", true) // As in the call with nominated pods: the best device left no room for them.
			}
			require.Nil(t, w.pl.filterOfNode(w.ctx, l))
			require.Equal(t, wanted, c.charges["n1"].plan[0].Devices.Results[0].Device)
		}
	})
}

// TestNodeAllocatableOtherNodes: a device that nobody can account for rules out its node alone, and many nodes with different amounts left
// have few different reasons.
func TestNodeAllocatableOtherNodes(t *testing.T) {
	key := resourceapi.QualifiedName("cores")
	odd := builder.Device("cpu-0").Capacity("cores", "4").Modify(stands(v1.ResourceCPU, resourceapi.NodeAllocatableResource{
		Mapping: &resourceapi.NodeAllocatableMapping{CapacityKey: &key}})) // Not shareable, so no claim says how much of it is consumed.
	objects := cpuNode("n1", 1, 0)
	objects[1] = builder.NodeSlice("n1", odd).Obj()
	for i := range 40 {
		node := cpuNode(fmt.Sprint("full-", i), 1, 0)
		node[0].(*v1.Node).Status.Allocatable = builder.Resources("cpu", fmt.Sprintf("%dm", 100+i), "memory", "4Gi", "pods", "100")
		objects = append(objects, node[:2]...)
	}
	objects = append(objects, cpuNode("n2", 1, 0)[:2]...)
	accounting(t, append(objects, gpus("one", 1).Obj()), func(t *testing.T, w *ofNodeWorld) {
		pod := newPod("p", uses("one"))
		w.create(pod)
		w.settle()
		verdicts, _ := w.judge(w.pl, pod)
		require.Equal(t, fwk.Success, verdicts["n2"].Code, verdicts["n2"].Reason)
		require.Equal(t, fwk.UnschedulableAndUnresolvable, verdicts["n1"].Code, verdicts["n1"].Reason)
		different := map[string]bool{}
		for _, verdict := range verdicts {
			different[verdict.Reason] = true
			require.NotContains(t, verdict.Reason, ",")
		}
		require.Less(t, len(different), 20)
		require.True(t, different[notEnough], "%v", different)
	})
}

// TestNodeAllocatableUnpublished: what a pod takes is recorded and its claim is allocated when the process ends. The next process must not
// bind the pod, and remove the record, while the driver is being restarted as well.
func TestNodeAllocatableUnpublished(t *testing.T) {
	pod := newPod("p", uses("one"))
	pod.Status.NodeAllocatableResourceClaimStatuses = []v1.NodeAllocatableResourceClaimStatus{
		{ResourceClaimName: "one", Mapping: []v1.NodeAllocatableMappedResources{{Name: "cpu", Quantity: amount("1")}}}}
	claim := with(gpus("one", 1).Obj(), allocate("n1", "cpu-0"), onNode("n1"), reservedFor("p"))
	objects := cpuNode("n1", 1, 0)
	accounting(t, []runtime.Object{objects[0], objects[2], claim, pod}, func(t *testing.T, w *ofNodeWorld) {
		w.settle()
		result := w.schedule(pod)
		require.Equal(t, "PreFilter", result.phase)
		require.Contains(t, result.text(), "its driver does not publish now")
		require.Len(t, w.stored("p").Status.NodeAllocatableResourceClaimStatuses, 1)
		w.create(objects[1])
		time.Sleep(queue.LongestPause)
		w.settle()
		require.Contains(t, w.names(), "default/p", "tried again when the devices are back")
		verdicts, _ := w.judge(w.pl, pod)
		require.Len(t, verdicts["n1"].Takes, 1)
	})
}

// TestNodeAllocatableUnpublishedInUse: no pod joins a claim in use whose device has stood for CPUs and is not published now: nothing would
// count what the second pod takes. A claim whose device has taken nothing of the node can be joined.
func TestNodeAllocatableUnpublishedInUse(t *testing.T) {
	bound := func(pod *v1.Pod) { pod.Spec.NodeName = "n1" }
	user, plain := newPod("user", uses("one"), bound), newPod("plain", uses("two"), bound)
	user.Status.NodeAllocatableResourceClaimStatuses = []v1.NodeAllocatableResourceClaimStatus{
		{ResourceClaimName: "one", Mapping: []v1.NodeAllocatableMappedResources{{Name: "cpu", Quantity: amount("1")}}}}
	one := with(gpus("one", 1).Obj(), allocate("n1", "cpu-0"), onNode("n1"), reservedFor("user"))
	two := with(gpus("two", 1).Obj(), allocate("n1", "gone"), onNode("n1"), reservedFor("plain"))
	objects := cpuNode("n1", 1, 0)
	accounting(t, []runtime.Object{objects[0], objects[2], one, two, user, plain}, func(t *testing.T, w *ofNodeWorld) {
		joins, allowed := newPod("joins", uses("one")), newPod("allowed", uses("two"))
		w.create(joins)
		w.create(allowed)
		w.settle()
		result := w.schedule(joins)
		require.Equal(t, "PreFilter", result.phase)
		require.Contains(t, result.text(), "its driver does not publish now")
		require.Equal(t, 1, consumerLimits{w.pl}.ConsumerLimit(one), "an attempt that began before")
		require.Greater(t, consumerLimits{w.pl}.ConsumerLimit(two), 1)
		result = w.schedule(allowed)
		require.Empty(t, result.phase, result.text())
	})
}

// TestNodeAllocatablePreemptsForOther: the free device takes more than the node has. That of a pod of lower priority takes nothing.
func TestNodeAllocatablePreemptsForOther(t *testing.T) {
	objects := cpuNode("n1", 0, 0)
	objects[1] = builder.NodeSlice("n1", builder.Device("plain"), builder.Device("big").Modify(stands(v1.ResourceCPU, mapped("6")))).Obj()
	pod := high("p", uses("one"))
	more := []runtime.Object{held(gpus("taken", 1).Obj(), "n1", []string{"plain"}, "busy"), low("busy", "n1", uses("taken")), gpus("one", 1).Obj(), pod}
	accounting(t, append(objects, more...), func(t *testing.T, w *ofNodeWorld) {
		profile := withDefaultPreemption(w.fixture)
		served := w.pl.state.served()
		served[len(served)-1].waiting.Begin(pod).LookEverywhere() // Otherwise PostFilter first has the other nodes tried.
		p := preemptIn(t, w.fixture, profile, pod)
		require.Equal(t, fwk.Unschedulable, p.codes["n1"], p.reasons["n1"])
		require.Equal(t, []string{"busy"}, p.victims, "%v", p.status)
	})
}
