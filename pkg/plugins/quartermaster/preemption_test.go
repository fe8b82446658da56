package quartermaster

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestPreemption has a pod of priority 10 come to a full cluster. All other pods have priority 0 unless it says
// otherwise.
func TestPreemption(t *testing.T) {
	t.Parallel()
	two := gpuNodes(2, "n1")
	network := []runtime.Object{builder.Class("gpu"), builder.Node("n1"), builder.Node("n2"),
		builder.Slice("net").InPool("net", 1, 1).OnAllNodes().Devices(builder.NumberedDevices("gpu", 2)...).Obj()}
	tests := map[string]struct {
		objects []runtime.Object
		pod     *v1.Pod
		node    string
		victims []string
		code    fwk.Code // of n1
		reason  string   // of n1, a part of it
	}{
		"one device": {
			objects: plus(two, held(gpus("a", 1).Obj(), "n1", []string{"gpu-0"}, "a"), held(gpus("b", 1).Obj(), "n1", []string{"gpu-1"}, "b"),
				low("a", "n1", uses("a")), low("b", "n1", uses("b"), priority(10))),
			pod: high("p", uses("c")), node: "n1", victims: []string{"a"}, code: fwk.Unschedulable, reason: "devices are held by 1 claim of lower-priority pods",
		},
		"two devices need both": {
			objects: plus(two, held(gpus("a", 1).Obj(), "n1", []string{"gpu-0"}, "a"), held(gpus("b", 1).Obj(), "n1", []string{"gpu-1"}, "b"),
				gpus("c2", 2).Obj(), low("a", "n1", uses("a")), low("b", "n1", uses("b"), priority(5))),
			pod: high("p", uses("c2")), node: "n1", victims: []string{"a", "b"}, code: fwk.Unschedulable, reason: "devices are held by 2 claims of lower-priority pods",
		},
		"holders of the same priority": {
			objects: plus(two, held(gpus("a", 2).Obj(), "n1", []string{"gpu-0", "gpu-1"}, "a"), low("a", "n1", uses("a"), priority(10))),
			pod:     high("p", uses("c")), code: fwk.UnschedulableAndUnresolvable, reason: "cannot allocate all claims: claim default/c request gpu: 2 devices match: 1 asked; 0 free; 2 held by other claims",
		},
		"never": {
			objects: plus(two, held(gpus("a", 2).Obj(), "n1", []string{"gpu-0", "gpu-1"}, "a"), low("a", "n1", uses("a"))),
			pod:     high("p", uses("c"), func(p *v1.Pod) { p.Spec.PreemptionPolicy = ptr.To(v1.PreemptNever) }), code: fwk.UnschedulableAndUnresolvable,
		},
		"no device that would do": {
			objects: plus(two, held(gpus("a", 2).Obj(), "n1", []string{"gpu-0", "gpu-1"}, "a"), low("a", "n1", uses("a")), gpus("c3", 3).Obj()),
			pod:     high("p", uses("c3")), code: fwk.UnschedulableAndUnresolvable,
		},
		"shared by two pods": {
			objects: plus(two, held(gpus("a", 2).Obj(), "n1", []string{"gpu-0", "gpu-1"}, "a", "a2"), low("a", "n1", uses("a")), low("a2", "n1", uses("a"))),
			pod:     high("p", uses("c")), node: "n1", victims: []string{"a", "a2"}, code: fwk.Unschedulable, reason: "devices are held by 1 claim of lower-priority pods",
		},
		"shared with one of the same priority": {
			objects: plus(two, held(gpus("a", 2).Obj(), "n1", []string{"gpu-0", "gpu-1"}, "a", "a2"), low("a", "n1", uses("a")), low("a2", "n1", uses("a"), priority(10))),
			pod:     high("p", uses("c")), code: fwk.UnschedulableAndUnresolvable,
		},
		"shared with one that is not on a node yet": {
			objects: plus(two, held(gpus("a", 2).Obj(), "n1", []string{"gpu-0", "gpu-1"}, "a", "a2"), low("a", "n1", uses("a")), newPod("a2", uses("a"))),
			pod:     high("p", uses("c")), code: fwk.UnschedulableAndUnresolvable,
		},
		"shared with one that has ended": {
			objects: plus(two, held(gpus("a", 2).Obj(), "n1", []string{"gpu-0", "gpu-1"}, "a", "a2"), low("a", "n1", uses("a")),
				low("a2", "n1", uses("a"), func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded })),
			pod: high("p", uses("c")), node: "n1", victims: []string{"a"}, code: fwk.Unschedulable,
		},
		"only pods that have ended": {
			objects: plus(two, held(gpus("a", 1).Obj(), "n1", []string{"gpu-0"}, "gone"), held(gpus("b", 1).Obj(), "n1", []string{"gpu-1"}, "b"), low("b", "n1", uses("b"))),
			pod:     high("p", uses("c")), code: fwk.UnschedulableAndUnresolvable, reason: "waiting for claims of pods that have ended to be deallocated",
		},
		"a victim that frees nothing of use": {
			objects: plus(two, held(gpus("a", 2).Obj(), "n1", []string{"gpu-0", "gpu-1"}, "a"), low("a", "n1", uses("a")), low("idle", "n1", priority(-5)),
				held(builder.Claim("other", builder.Request("x", "gpu")).Obj(), "elsewhere", []string{"x"}, "other"), low("other", "n1", uses("other"), priority(-5))),
			pod: high("p", uses("c")), node: "n1", victims: []string{"a"}, code: fwk.Unschedulable,
		},
		"the cheapest node": {
			objects: plus(gpuNodes(1, "n1", "n2"), held(gpus("a", 1).Obj(), "n1", []string{"gpu-0"}, "a"), held(gpus("b", 1).Obj(), "n2", []string{"gpu-0"}, "b"),
				low("a", "n1", uses("a"), priority(3)), low("b", "n2", uses("b"), priority(2))),
			pod: high("p", uses("c")), node: "n2", victims: []string{"b"}, code: fwk.Unschedulable,
		},
		"admin access is in nobody's way": {
			objects: plus(two, held(gpus("a", 2).Obj(), "n1", []string{"gpu-0", "gpu-1"}, "a"), low("a", "n1", uses("a")),
				with(held(builder.Claim("adm", builder.Request("x", "gpu").Admin()).Obj(), "n1", []string{"gpu-0"}, "adm"), func(c *resourceapi.ResourceClaim) {
					c.Status.Allocation.Devices.Results[0].AdminAccess = ptr.To(true)
				}), low("adm", "n1", uses("adm"))),
			pod: high("p", uses("c")), node: "n1", victims: []string{"a"}, code: fwk.Unschedulable,
		},
		"a pool for all nodes": {
			objects: plus(network, held(gpus("a", 1).Obj(), "net", []string{"gpu-0"}, "a"), held(gpus("b", 1).Obj(), "net", []string{"gpu-1"}, "b"),
				low("a", "n2", uses("a"), priority(3)), low("b", "n2", uses("b"))),
			pod: high("p", uses("c"), onlyOn("n1")), node: "n1", victims: []string{"b"}, code: fwk.Unschedulable, reason: "devices are held by 2 claims of lower-priority pods",
		},
		"a victim that is being deleted already": {
			objects: plus(two, held(gpus("a", 1).Obj(), "n1", []string{"gpu-0"}, "a"), held(gpus("b", 1).Obj(), "n1", []string{"gpu-1"}, "b"),
				low("a", "n1", uses("a"), priority(5), startedAt(1), leaves), low("b", "n1", uses("b"), startedAt(2))),
			pod: high("p", uses("c")), node: "n1", code: fwk.Unschedulable,
		},
		"a selector that fails on another device": {
			objects: []runtime.Object{builder.Class("gpu"), builder.Node("n1"), builder.NodeSlice("n1", builder.Device("bare"), builder.Device("gpu-1").Attr("numa", 0)).Obj(),
				held(gpus("a", 1).Obj(), "n1", []string{"gpu-1"}, "a"), low("a", "n1", uses("a")),
				builder.Claim("picky", builder.Request("gpu", "gpu").Where(`device.attributes["gpu.example.com"].numa == 0`)).Obj()},
			pod: high("p", uses("picky")), node: "n1", victims: []string{"a"}, code: fwk.Unschedulable, reason: "devices are held by 1 claim of lower-priority pods",
		},
		"a network-attached device of another kind is in nobody's way": {
			objects: []runtime.Object{builder.Class("gpu"), builder.Node("n1"), builder.Node("n2"), builder.NodeSlice("n1", builder.Device("gpu-0").Attr("numa", 0)).Obj(),
				builder.Slice("net").InPool("net", 1, 1).OnAllNodes().Devices(builder.Device("gpu-1").Attr("numa", 1)).Obj(),
				held(gpus("a", 1).Obj(), "n1", []string{"gpu-0"}, "a"), low("a", "n1", uses("a"), startedAt(1)),
				held(gpus("b", 1).Obj(), "net", []string{"gpu-1"}, "b", "b2"), low("b", "n2", uses("b"), startedAt(2)), low("b2", "n2", uses("b"), startedAt(2)),
				builder.Claim("first", builder.Request("gpu", "gpu").Where(`device.attributes["gpu.example.com"].numa == 0`)).Obj()},
			pod: high("p", uses("first")), node: "n1", victims: []string{"a"}, code: fwk.Unschedulable, reason: "devices are held by 1 claim of lower-priority pods",
		},
		"a claim of its own that is shared": {
			objects: plus(two, held(gpus("a", 2).Obj(), "n1", []string{"gpu-0", "gpu-1"}, "a"), low("a", "n1", uses("a"))),
			pod:     high("p", uses("a"), uses("c")), code: fwk.UnschedulableAndUnresolvable,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, plus(test.objects, gpus("c", 1).Obj(), test.pod), func(t *testing.T, f *fixture) {
				p := preempt(t, f, test.pod)
				require.Equal(t, test.code, p.codes["n1"], p.reasons["n1"])
				require.Contains(t, p.reasons["n1"], test.reason)
				require.Equal(t, test.victims, p.victims, "%v", p.status)
				if test.node != "" {
					require.Equal(t, test.node, p.node, "%v", p.status)
				}
			})
		})
	}
}

// TestElsewhere: pods on other nodes are tried as victims only if they hold devices that may be of use. Trying hundreds of others, which share
// a claim, would take every preemptor a second.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	gpu := func(name string, numa int) *builder.DeviceBuilder { return builder.Device(name).Attr("numa", numa) }
	slice := func(pool string, devices ...*builder.DeviceBuilder) runtime.Object {
		return builder.Slice(pool).InPool(pool, 1, 1).OnAllNodes().Devices(devices...).Obj()
	}
	wants := func(name string, numa string) *builder.ClaimBuilder {
		return builder.Claim(name, builder.Request("gpu", "gpu").Where(`device.attributes["gpu.example.com"].numa == `+numa))
	}
	p, q := high("p", uses("first")), high("q", uses("second"))
	for name, slices := range map[string][]runtime.Object{
		"of another pool":  {slice("net-0", gpu("gpu-0", 0)), slice("net-1", gpu("gpu-1", 1))},
		"of the same pool": {slice("net-0", gpu("gpu-0", 0), gpu("gpu-1", 1))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := plus([]runtime.Object{builder.Class("gpu"), builder.Node("n1"), builder.Node("n2"), wants("first", "0").Obj(), wants("second", "1").Obj(), p, q,
				held(wants("a", "0").Obj(), "net-0", []string{"gpu-0"}, "a"), low("a", "n2", uses("a")),
				held(wants("b", "1").Obj(), "net-"+strconv.Itoa(len(slices)-1), []string{"gpu-1"}, "b"), low("b", "n2", uses("b"))}, slices...)
			inCluster(t, objects, func(t *testing.T, f *fixture) {
				f.pl.handle = withDefaultPreemption(f)
				for pod, expected := range map[*v1.Pod]string{p: "a", q: "b"} {
					state := framework.NewCycleState()
					_, status := f.pl.PreFilter(f.ctx, state, pod, f.nodeInfos())
					require.True(t, status.IsSuccess(), "%v", status)
					victims := deviceHolders{f.pl}.Elsewhere(f.ctx, state, pod, f.nodeInfos()[0].Node())
					require.Len(t, victims, 1)
					require.Equal(t, expected, victims[0].Name)
				}
			})
		})
	}
}

// leaves marks a pod as being deleted, with time left.
func leaves(pod *v1.Pod) {
	pod.DeletionTimestamp, pod.Finalizers = ptr.To(metav1.Unix(10, 0)), []string{"example.com/slow"}
}
