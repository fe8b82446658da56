package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// preemptionCase is a full cluster to which a pod comes.
type preemptionCase struct {
	objects []runtime.Object
	pod     *v1.Pod
	// node is the one that the pod is nominated for, "" if none, and victims are those that go for it.
	node    string
	victims []string
	code    fwk.Code // of n1
	reason  string   // of n1, a part of it
}

// runPreemption is a test of its own for each case.
func runPreemption(t *testing.T, tests map[string]preemptionCase) {
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, plus(test.objects, test.pod), func(t *testing.T, f *fixture) {
				p := preempt(t, f, test.pod)
				require.Equal(t, test.code, p.codes["n1"], p.reasons["n1"])
				require.Contains(t, p.reasons["n1"], test.reason)
				require.Equal(t, test.victims, p.victims, "%v", p.status)
				require.Equal(t, test.node, p.node, "%v", p.status)
			})
		})
	}
}

// together are objects and lists of objects.
func together(parts ...any) []runtime.Object {
	var objects []runtime.Object
	for _, part := range parts {
		if list, isList := part.([]runtime.Object); isList {
			objects = append(objects, list...)
		} else {
			objects = append(objects, part.(runtime.Object))
		}
	}
	return objects
}

// holdingOne is a pod of priority 0 on a node with a GPU of its own, that claim being named after it.
func holdingOne(name, node, pool, device string, edits ...func(*v1.Pod)) []runtime.Object {
	return []runtime.Object{held(gpus(name, 1).Obj(), pool, []string{device}, name), low(name, node, append(edits, uses(name))...)}
}

// nicShare is a claim with a share of the NIC of nicNode.
func nicShare(claim, amount string, pods ...string) *resourceapi.ResourceClaim {
	return with(held(wantsBandwidth(claim, amount), "n1", []string{"nic"}, pods...), func(c *resourceapi.ResourceClaim) {
		result := &c.Status.Allocation.Devices.Results[0]
		result.ShareID = ptr.To(types.UID("share-of-" + claim))
		result.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"bandwidth": resource.MustParse(amount)}
	})
}

// labeled sets the label that PodDisruptionBudgets of budget select.
func labeled(app string) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Labels = map[string]string{builder.AppLabel: app} }
}

// budget is a PodDisruptionBudget for an app that lets so many pods be evicted.
func budget(app string, allowed int32) *policy.PodDisruptionBudget {
	return &policy.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app, Namespace: builder.Namespace},
		Spec:       policy.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{builder.AppLabel: app}}},
		Status:     policy.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}
}

// TestPreemptionOfParts: what claims have of a device, or of the counters from which partitions are made.
func TestPreemptionOfParts(t *testing.T) {
	t.Parallel()
	half := func(claim, device string, pods ...string) *resourceapi.ResourceClaim {
		return held(wantsPartition(claim, "half"), "n1", []string{device}, pods...)
	}
	runPreemption(t, map[string]preemptionCase{
		"a small partition in the way of the large one": {
			objects: together(partitionedNode(), half("a", "half-0", "a"), low("a", "n1", uses("a")), wantsPartition("c", "whole")),
			pod:     high("p", uses("c")), node: "n1", victims: []string{"a"}, code: fwk.Unschedulable, reason: "devices are held by 1 claim of lower-priority pods",
		},
		"two small partitions in the way of the large one": {
			objects: together(partitionedNode(), half("a", "half-0", "a"), low("a", "n1", uses("a")), half("b", "half-1", "b"), low("b", "n1", uses("b"), priority(9)),
				wantsPartition("c", "whole")),
			pod: high("p", uses("c")), node: "n1", victims: []string{"a", "b"}, code: fwk.Unschedulable,
		},
		"a small partition that stays": {
			objects: together(partitionedNode(), half("a", "half-0", "a"), low("a", "n1", uses("a")), half("b", "half-1", "b"), low("b", "n1", uses("b"), priority(10)),
				wantsPartition("c", "whole")),
			pod: high("p", uses("c")), code: fwk.UnschedulableAndUnresolvable,
		},
		"the large partition in the way of a small one": {
			objects: together(partitionedNode(), held(wantsPartition("a", "whole"), "n1", []string{"whole"}, "a"), low("a", "n1", uses("a")), wantsPartition("c", "half")),
			pod:     high("p", uses("c")), node: "n1", victims: []string{"a"}, code: fwk.Unschedulable,
		},
		"one small partition for another": {
			objects: together(partitionedNode(), half("a", "half-0", "a"), low("a", "n1", uses("a"), priority(2)), half("b", "half-1", "b"), low("b", "n1", uses("b"), priority(1)),
				wantsPartition("c", "half")),
			pod: high("p", uses("c")), node: "n1", victims: []string{"b"}, code: fwk.Unschedulable,
		},
		"the share that is enough": {
			objects: together(nicNode(), nicShare("a", "6", "a"), nicShare("b", "4", "b"), low("a", "n1", uses("a")), low("b", "n1", uses("b"), priority(1)), wantsBandwidth("c", "4")),
			pod:     high("p", uses("c")), node: "n1", victims: []string{"a"}, code: fwk.Unschedulable, reason: "devices are held by 2 claims of lower-priority pods",
		},
		"shares that are not enough alone": {
			objects: together(nicNode(), nicShare("a", "6", "a"), nicShare("b", "4", "b"), low("a", "n1", uses("a")), low("b", "n1", uses("b"), priority(1)), wantsBandwidth("c", "7")),
			pod:     high("p", uses("c")), node: "n1", victims: []string{"a", "b"}, code: fwk.Unschedulable,
		},
		"a share too small to be of use": {
			objects: together(nicNode(), nicShare("a", "7", "a"), nicShare("b", "3", "b"), low("a", "n1", uses("a"), priority(3)), low("b", "n1", uses("b")), wantsBandwidth("c", "4")),
			pod:     high("p", uses("c")), node: "n1", victims: []string{"a"}, code: fwk.Unschedulable,
		},
		"shares that stay": {
			objects: together(nicNode(), nicShare("a", "6", "a"), nicShare("b", "4", "b"), low("a", "n1", uses("a"), priority(10)), low("b", "n1", uses("b")), wantsBandwidth("c", "5")),
			pod:     high("p", uses("c")), code: fwk.UnschedulableAndUnresolvable,
		},
		"one share of a pod that has two": {
			objects: together(nicNode(), nicShare("a", "5", "a"), nicShare("a2", "5", "a"), low("a", "n1", uses("a"), uses("a2")), wantsBandwidth("c", "2")),
			pod:     high("p", uses("c")), node: "n1", victims: []string{"a"}, code: fwk.Unschedulable, reason: "devices are held by 2 claims of lower-priority pods",
		},
	})
}

// TestPreemptionOfSeveralClaims: pods and victims with more than one, and requests for all devices.
func TestPreemptionOfSeveralClaims(t *testing.T) {
	t.Parallel()
	two, four := gpuNodes(2, "n1"), gpuNodes(4, "n1")
	network := plus(gpuNodes(1, "n1", "n2"), builder.Slice("net").OfDriver("net.example.com").InPool("net", 1, 1).OnAllNodes().Devices(builder.Devices("port")...).Obj(),
		builder.Class("port", builder.OfDriver("net.example.com")))
	network[0] = builder.Class("gpu", builder.OfDriver(builder.Driver))
	port := func(name string) *builder.ClaimBuilder { return builder.Claim(name, builder.Request("port", "port")) }
	heldPort := func(name string, pods ...string) *resourceapi.ResourceClaim {
		return with(held(port(name).Obj(), "net", []string{"port"}, pods...), func(c *resourceapi.ResourceClaim) {
			c.Status.Allocation.Devices.Results[0].Driver = "net.example.com"
		})
	}
	all := builder.Claim("c", builder.Request("gpu", "gpu").All()).Obj()
	runPreemption(t, map[string]preemptionCase{
		"two claims of one victim": {
			objects: together(two, held(gpus("a", 1).Obj(), "n1", []string{"gpu-0"}, "a"), held(gpus("a2", 1).Obj(), "n1", []string{"gpu-1"}, "a"),
				low("a", "n1", uses("a"), uses("a2")), gpus("c", 2).Obj()),
			pod: high("p", uses("c")), node: "n1", victims: []string{"a"}, code: fwk.Unschedulable, reason: "devices are held by 2 claims of lower-priority pods",
		},
		"two claims of one victim, one is shared with a pod that stays": {
			objects: together(two, held(gpus("a", 1).Obj(), "n1", []string{"gpu-0"}, "a"), held(gpus("s", 1).Obj(), "n1", []string{"gpu-1"}, "a", "b"),
				low("a", "n1", uses("a"), uses("s")), low("b", "n1", uses("s"), priority(10)), gpus("c", 2).Obj()),
			pod: high("p", uses("c")), code: fwk.UnschedulableAndUnresolvable,
		},
		"the same, but one device will do": {
			objects: together(two, held(gpus("a", 1).Obj(), "n1", []string{"gpu-0"}, "a"), held(gpus("s", 1).Obj(), "n1", []string{"gpu-1"}, "a", "b"),
				low("a", "n1", uses("a"), uses("s")), low("b", "n1", uses("s"), priority(10)), gpus("c", 1).Obj()),
			pod: high("p", uses("c")), node: "n1", victims: []string{"a"}, code: fwk.Unschedulable, reason: "devices are held by 1 claim of lower-priority pods",
		},
		"a pod with two claims": {
			objects: together(two, holdingOne("a", "n1", "n1", "gpu-0"), holdingOne("b", "n1", "n1", "gpu-1"), gpus("c", 1).Obj(), gpus("c2", 1).Obj()),
			pod:     high("p", uses("c"), uses("c2")), node: "n1", victims: []string{"a", "b"}, code: fwk.Unschedulable,
		},
		"a pod with two claims, one is allocated": {
			objects: together(two, held(gpus("c", 1).Obj(), "n1", []string{"gpu-0"}), holdingOne("b", "n1", "n1", "gpu-1"), gpus("c2", 1).Obj()),
			pod:     high("p", uses("c"), uses("c2")), node: "n1", victims: []string{"b"}, code: fwk.Unschedulable,
		},
		"fewer victims instead of less important ones": {
			objects: together(four, held(gpus("a", 2).Obj(), "n1", []string{"gpu-0", "gpu-1"}, "a"), low("a", "n1", uses("a"), priority(1)),
				holdingOne("b", "n1", "n1", "gpu-2"), holdingOne("b2", "n1", "n1", "gpu-3", priority(10)), gpus("c", 2).Obj()),
			pod: high("p", uses("c")), node: "n1", victims: []string{"a"}, code: fwk.Unschedulable,
		},
		"all devices": {
			objects: together(two, holdingOne("a", "n1", "n1", "gpu-0"), holdingOne("b", "n1", "n1", "gpu-1", priority(9)), all),
			pod:     high("p", uses("c")), node: "n1", victims: []string{"a", "b"}, code: fwk.Unschedulable,
		},
		"all devices, one is free": {
			objects: together(two, holdingOne("a", "n1", "n1", "gpu-0"), all),
			pod:     high("p", uses("c")), node: "n1", victims: []string{"a"}, code: fwk.Unschedulable,
		},
		"all devices, one is kept": {
			objects: together(two, holdingOne("a", "n1", "n1", "gpu-0"), holdingOne("b", "n1", "n1", "gpu-1", priority(10)), all),
			pod:     high("p", uses("c")), code: fwk.UnschedulableAndUnresolvable,
		},
		"a victim on the node and one elsewhere": {
			objects: together(network, holdingOne("a", "n1", "n1", "gpu-0"), holdingOne("b", "n2", "n2", "gpu-0", priority(10)), heldPort("s", "s"), low("s", "n2", uses("s")),
				gpus("c", 1).Obj(), port("d").Obj()),
			pod: high("p", uses("c"), uses("d")), node: "n1", victims: []string{"a", "s"}, code: fwk.Unschedulable,
		},
		"a victim elsewhere for one request, one on the node for the other": {
			objects: together(network, holdingOne("a", "n1", "n1", "gpu-0"), holdingOne("b", "n2", "n2", "gpu-0", priority(10)), heldPort("s", "s"), low("s", "n2", uses("s")),
				builder.Claim("c", builder.Request("gpu", "gpu"), builder.Request("port", "port")).Obj()),
			pod: high("p", uses("c")), node: "n1", victims: []string{"a", "s"}, code: fwk.Unschedulable,
		},
		"a victim elsewhere instead of a more important one on the node": {
			objects: together(gpuNodes(2, "n1"), builder.Node("n2"), builder.Slice("net").OnAllNodes().Devices(builder.Devices("gpu")...).Obj(),
				holdingOne("a", "n1", "n1", "gpu-0", priority(9)), holdingOne("b", "n1", "n1", "gpu-1", priority(1)), holdingOne("d", "n2", "net", "gpu", priority(5)),
				gpus("c", 2).Obj()),
			pod: high("p", uses("c"), onlyOn("n1")), node: "n1", victims: []string{"b", "d"}, code: fwk.Unschedulable,
		},
		"a claim shared by pods on two nodes": {
			objects: together(network, heldPort("s", "s1", "s2"), low("s1", "n1", uses("s")), low("s2", "n2", uses("s")), port("d").Obj()),
			pod:     high("p", uses("d"), onlyOn("n1")), node: "n1", victims: []string{"s1", "s2"}, code: fwk.Unschedulable,
		},
		"a claim shared by pods on two nodes, one stays": {
			objects: together(network, heldPort("s", "s1", "s2"), low("s1", "n1", uses("s")), low("s2", "n2", uses("s"), priority(10)), port("d").Obj()),
			pod:     high("p", uses("d")), code: fwk.UnschedulableAndUnresolvable,
		},
	})
}

// TestPreemptionForExtendedResources: KEP-5004, on both sides.
func TestPreemptionForExtendedResources(t *testing.T) {
	t.Parallel()
	victim := func(name, node string, devices []string, edits ...func(*v1.Pod)) []runtime.Object {
		pod := gpuPod(name, "1", append([]func(*v1.Pod){priority(0), runsOn(node)}, edits...)...)
		claim := with(extended.NewClaim(pod), allocate(node, devices...), reservedFor(name), func(claim *resourceapi.ResourceClaim) {
			claim.Spec = gpus("", int64(len(devices))).Obj().Spec
		})
		pod.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: claim.Name}
		return []runtime.Object{pod, claim}
	}
	wants := func(quantity string, edits ...func(*v1.Pod)) *v1.Pod {
		return gpuPod("p", quantity, append(edits, priority(10))...)
	}
	runPreemption(t, map[string]preemptionCase{
		"of a pod with extended resources for a claim": {
			objects: together(backedNodes(1, "n1"), victim("a", "n1", []string{"gpu-0"}), gpus("c", 1).Obj()),
			pod:     high("p", uses("c")), node: "n1", victims: []string{"a"}, code: fwk.Unschedulable,
		},
		"of a pod with a claim for extended resources": {
			objects: together(backedNodes(1, "n1"), holdingOne("a", "n1", "n1", "gpu-0")),
			pod:     wants("1"), node: "n1", victims: []string{"a"}, code: fwk.Unschedulable, reason: "devices are held by 1 claim of lower-priority pods",
		},
		"both with extended resources, two nodes": {
			objects: together(backedNodes(2, "n1", "n2"), victim("a", "n1", []string{"gpu-0"}), victim("b", "n1", []string{"gpu-1"}, priority(2)),
				victim("d", "n2", []string{"gpu-0"}, priority(1)), victim("e", "n2", []string{"gpu-1"}, priority(1))),
			pod: wants("2"), node: "n2", victims: []string{"d", "e"}, code: fwk.Unschedulable,
		},
		"extended resources and a claim": {
			objects: together(backedNodes(2, "n1"), victim("a", "n1", []string{"gpu-0"}), holdingOne("b", "n1", "n1", "gpu-1"), gpus("c", 1).Obj()),
			pod:     wants("1", uses("c")), node: "n1", victims: []string{"a", "b"}, code: fwk.Unschedulable,
		},
		"holders of the same priority": {
			objects: together(backedNodes(1, "n1"), victim("a", "n1", []string{"gpu-0"}, priority(10))),
			pod:     wants("1"), code: fwk.UnschedulableAndUnresolvable,
		},
		"there are too few devices": {
			objects: together(backedNodes(1, "n1"), victim("a", "n1", []string{"gpu-0"})),
			pod:     wants("2"), code: fwk.UnschedulableAndUnresolvable,
		},
	})
}

// TestPreemptionAndDisruption: PodDisruptionBudgets and pods that are going anyway.
func TestPreemptionAndDisruption(t *testing.T) {
	t.Parallel()
	one, both := gpuNodes(2, "n1"), gpuNodes(1, "n1", "n2")
	c := gpus("c", 1).Obj()
	runPreemption(t, map[string]preemptionCase{
		"another node is preferred": {
			objects: together(both, holdingOne("a", "n1", "n1", "gpu-0", labeled("kept")), holdingOne("b", "n2", "n2", "gpu-0", priority(9)), budget("kept", 0), c),
			pod:     high("p", uses("c")), node: "n2", victims: []string{"b"}, code: fwk.Unschedulable,
		},
		"another victim on the node is preferred": {
			objects: together(one, holdingOne("a", "n1", "n1", "gpu-0", labeled("kept")), holdingOne("b", "n1", "n1", "gpu-1", priority(9)), budget("kept", 0), c),
			pod:     high("p", uses("c")), node: "n1", victims: []string{"b"}, code: fwk.Unschedulable,
		},
		"it allows one": {
			objects: together(both, holdingOne("a", "n1", "n1", "gpu-0", labeled("kept")), holdingOne("b", "n2", "n2", "gpu-0", priority(9)), budget("kept", 1), c),
			pod:     high("p", uses("c")), node: "n1", victims: []string{"a"}, code: fwk.Unschedulable,
		},
		"there is nobody else": {
			objects: together(both, holdingOne("a", "n1", "n1", "gpu-0", labeled("kept")), holdingOne("b", "n2", "n2", "gpu-0", priority(10)), budget("kept", 0), c),
			pod:     high("p", uses("c")), node: "n1", victims: []string{"a"}, code: fwk.Unschedulable,
		},
		"a pool for all nodes": {
			objects: together([]runtime.Object{builder.Class("gpu"), builder.Node("n1"), builder.Node("n2"),
				builder.Slice("net").OnAllNodes().Devices(builder.NumberedDevices("gpu", 2)...).Obj()},
				holdingOne("a", "n2", "net", "gpu-0", labeled("kept")), holdingOne("b", "n2", "net", "gpu-1", priority(9)), budget("kept", 0), c),
			pod: high("p", uses("c"), onlyOn("n1")), node: "n1", victims: []string{"b"}, code: fwk.Unschedulable,
		},
		"the victim is going already": {
			objects: together(gpuNodes(1, "n1"), holdingOne("a", "n1", "n1", "gpu-0", leaves), c),
			pod:     high("p", uses("c")), node: "n1", code: fwk.Unschedulable,
		},
		"the more important one of two is going already": {
			objects: together(gpuNodes(2, "n1", "n2"), holdingOne("a", "n1", "n1", "gpu-0", priority(6), leaves), holdingOne("b", "n1", "n1", "gpu-1", priority(4)),
				held(gpus("d", 2).Obj(), "n2", []string{"gpu-0", "gpu-1"}, "d"), low("d", "n2", uses("d"), priority(5)), gpus("c", 2).Obj()),
			pod: high("p", uses("c")), node: "n2", victims: []string{"d"}, code: fwk.Unschedulable,
		},
		"the later one of the same priority": {
			objects: together(one, holdingOne("a", "n1", "n1", "gpu-0", startedAt(2)), holdingOne("b", "n1", "n1", "gpu-1", startedAt(3)), c),
			pod:     high("p", uses("c")), node: "n1", victims: []string{"b"}, code: fwk.Unschedulable,
		},
	})
}

// startedAt sets when a pod was started, in seconds.
func startedAt(second int64) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Status.StartTime = ptr.To(metav1.Unix(second, 0)) }
}
