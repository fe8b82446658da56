package quartermaster

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// ofNodeWorld is a cluster with devices that take resources of their node, in which the plugin and the in-tree plugin look at the
// same objects.
type ofNodeWorld struct {
	*fixture
	inTree *dynamicresources.DynamicResources
}

// accounting runs a test in a cluster, with the gate on in the whole process. Such a test must not be parallel to others.
func accounting(t *testing.T, objects []runtime.Object, test func(t *testing.T, w *ofNodeWorld)) {
	t.Helper()
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, kube.DRANodeAllocatableResources, true)
	synctest.Test(t, func(t *testing.T) {
		test(t, newOfNodeWorld(newFixture(t, startServer(t, objects...), "default")))
	})
}

// newOfNodeWorld starts a scheduler.
func newOfNodeWorld(f *fixture) *ofNodeWorld {
	api := f.factory.Resource().V1()
	slices, err := tracker.StartTracker(f.ctx, tracker.Options{SliceInformer: api.ResourceSlices()})
	require.NoError(f.t, err)
	claims := assumecache.NewAssumeCache(klog.FromContext(f.ctx), api.ResourceClaims().Informer(), "ResourceClaim", "", nil)
	handle, err := frameworkruntime.NewFramework(f.ctx, nil, &config.KubeSchedulerProfile{SchedulerName: "in-tree"},
		frameworkruntime.WithClientSet(f.client), frameworkruntime.WithInformerFactory(f.factory),
		frameworkruntime.WithSharedDRAManager(dynamicresources.NewDRAManager(f.ctx, claims, slices, f.factory)))
	require.NoError(f.t, err)
	plugin, err := dynamicresources.New(f.ctx, new(config.DynamicResourcesArgs), handle,
		feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	require.NoError(f.t, err)
	f.start()
	return &ofNodeWorld{f, plugin.(*dynamicresources.DynamicResources)}
}

// infos returns the nodes with their pods as the server has them.
func (w *ofNodeWorld) infos() []fwk.NodeInfo { return w.infosWithout("") }

// infosWithout returns them without one of the pods.
func (w *ofNodeWorld) infosWithout(name string) []fwk.NodeInfo {
	pods, err := w.client.CoreV1().Pods("").List(w.ctx, metav1.ListOptions{})
	require.NoError(w.t, err)
	infos := w.nodeInfos()
	for _, info := range infos {
		for i := range pods.Items {
			if pod := &pods.Items[i]; pod.Spec.NodeName == info.Node().Name && pod.Name != name {
				addPod(w.t, info, pod)
			}
		}
	}
	return infos
}

func addPod(t *testing.T, info fwk.NodeInfo, pod *v1.Pod) {
	podInfo, err := framework.NewPodInfo(pod)
	require.NoError(t, err)
	info.AddPodInfo(podInfo)
}

// verdict is what a plugin says of a node.
type verdict struct {
	Code   fwk.Code
	Reason string
	Takes  []v1.NodeAllocatableResourceClaimStatus
}

type filtering interface {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
}

// judge returns what a plugin says of each node, and the state of its attempt.
func (w *ofNodeWorld) judge(plugin filtering, pod *v1.Pod) (map[string]verdict, fwk.CycleState) {
	return w.judgeWith(plugin, pod, w.infos())
}

func (w *ofNodeWorld) judgeWith(plugin filtering, pod *v1.Pod, infos []fwk.NodeInfo) (map[string]verdict, fwk.CycleState) {
	cs, verdicts := fwk.CycleState(framework.NewCycleState()), make(map[string]verdict)
	_, status := plugin.PreFilter(w.ctx, cs, pod, infos)
	for i, info := range infos {
		status := status
		if status.IsSuccess() {
			given := cs
			if i%2 == 0 {
				given = cs.Clone() // As for a node with nominated pods.
			}
			status = plugin.Filter(w.ctx, given, pod, info)
		}
		v := verdict{Code: status.Code(), Reason: status.Message()}
		if status.IsSuccess() {
			v.Takes = takesOn(cs, info.Node().Name)
		}
		verdicts[info.Node().Name] = v
	}
	return verdicts, cs
}

// takesOn returns what kube-scheduler reads when it assumes the pod.
func takesOn(cs fwk.CycleState, node string) []v1.NodeAllocatableResourceClaimStatus {
	return dynamicresources.ExtractPodNodeAllocatableResourceClaimStatus(klog.Background(), cs, node)
}

// assumed returns the pod as kube-scheduler has it after it has chosen the node.
func assumed(cs fwk.CycleState, pod *v1.Pod, node string) *v1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.NodeName, pod.Status.NodeAllocatableResourceClaimStatuses = node, takesOn(cs, node)
	return pod
}

// commit runs an attempt from Reserve to PreBind.
func (w *ofNodeWorld) commit(cs fwk.CycleState, pod *v1.Pod) {
	node := pod.Spec.NodeName
	require.NoError(w.t, w.pl.Reserve(w.ctx, cs, pod, node).AsError())
	_, status := w.pl.PreBindPreFlight(w.ctx, cs, pod, node)
	require.NoError(w.t, status.AsError())
	require.NoError(w.t, w.pl.PreBind(w.ctx, cs, pod, node).AsError())
}

// stored returns the pod that the server has.
func (w *ofNodeWorld) stored(name string) *v1.Pod {
	pod, err := w.client.CoreV1().Pods(builder.Namespace).Get(w.ctx, name, metav1.GetOptions{})
	require.NoError(w.t, err)
	return pod
}

// bind writes the node of a pod.
func (w *ofNodeWorld) bind(cs fwk.CycleState, name, node string) {
	pod := w.stored(name)
	pod.Spec.NodeName = node
	_, err := w.client.CoreV1().Pods(pod.Namespace).Update(w.ctx, pod, metav1.UpdateOptions{})
	require.NoError(w.t, err)
	w.pl.PostBind(w.ctx, cs, pod, node)
	w.settle()
}

// stands makes a device stand for, or need, a resource of its node.
func stands(name v1.ResourceName, as resourceapi.NodeAllocatableResource) func(*resourceapi.Device) {
	return func(device *resourceapi.Device) {
		if device.NodeAllocatableResources == nil {
			device.NodeAllocatableResources = make(map[v1.ResourceName]resourceapi.NodeAllocatableResource)
		}
		device.NodeAllocatableResources[name] = as
	}
}

func amount(text string) *resource.Quantity { return ptr.To(resource.MustParse(text)) }

// mapped is what a device stands for.
func mapped(amountEach string) resourceapi.NodeAllocatableResource {
	return resourceapi.NodeAllocatableResource{Mapping: &resourceapi.NodeAllocatableMapping{DeviceMultiplier: amount(amountEach)}}
}

// pick returns one of several values.
func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// randomNodes returns nodes with CPUs of their own and devices that take some of them. Devices of one pool are alike, unless mixed is
// set: otherwise the two plugins may choose different ones.
func randomNodes(r *rand.Rand, mixed bool) (objects []runtime.Object) {
	objects = append(objects, builder.Class("cpu", builder.OfDriver("cpu.example.com")), builder.Class("cores", builder.OfDriver("cores.example.com")))
	for i := range 1 + r.IntN(3) {
		name := fmt.Sprint("n", i)
		node := builder.Node(name)
		node.Status.Allocatable = builder.Resources("cpu", pick(r, "2", "4", "8"), "memory", pick(r, "1Gi", "4Gi"), "hugepages-2Mi", pick(r, "0", "1Gi"), "pods", "100")
		objects = append(objects, node)
		edit := randomEdit(r)
		var devices []*builder.DeviceBuilder
		for d := range 1 + r.IntN(4) {
			if mixed {
				edit = randomEdit(r)
			}
			devices = append(devices, builder.Device(fmt.Sprint("cpu-", d)).Modify(edit))
		}
		objects = append(objects, builder.Slice(name+"-cpu").OfDriver("cpu.example.com").OnNode(name).Devices(devices...).Obj())
		key := resourceapi.QualifiedName("cores")
		cores := builder.Device("cores").Shared().Capacity("cores", pick(r, "2", "6")).Modify(stands(v1.ResourceCPU, resourceapi.NodeAllocatableResource{
			Mapping: &resourceapi.NodeAllocatableMapping{CapacityKey: &key, CapacityMultiplier: amount(pick(r, "1", "500m", "2"))}}))
		if r.IntN(3) == 0 { // What is asked for is rounded up.
			cores.Policy("cores", resourceapi.CapacityRequestPolicy{Default: amount("2"), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: amount("2"), Step: amount("2")}})
		}
		if r.IntN(3) == 0 {
			cores.Modify(stands(v1.ResourceMemory, resourceapi.NodeAllocatableResource{Overhead: &resourceapi.NodeAllocatableOverhead{PerContainer: amount("200Mi")}}))
		}
		objects = append(objects, builder.Slice(name+"-cores").OfDriver("cores.example.com").OnNode(name).Devices(cores).Obj())
	}
	net := builder.Device("net").Modify(stands(v1.ResourceMemory, resourceapi.NodeAllocatableResource{Overhead: &resourceapi.NodeAllocatableOverhead{PerPod: amount("300Mi")}}))
	if r.IntN(2) == 0 {
		net.Modify(stands(v1.ResourceCPU, resourceapi.NodeAllocatableResource{Overhead: &resourceapi.NodeAllocatableOverhead{PerContainer: amount("250m")}}))
	}
	return append(objects, builder.Class("net", builder.OfDriver("net.example.com")),
		builder.Slice("net").OfDriver("net.example.com").OnAllNodes().Devices(net).Obj())
}

// randomEdit returns what a device takes of its node.
func randomEdit(r *rand.Rand) func(*resourceapi.Device) {
	cpu, memory, huge := r.IntN(4), r.IntN(4), r.IntN(6) == 0
	each := pick(r, "500m", "1", "2")
	return func(device *resourceapi.Device) {
		if cpu > 0 {
			stands(v1.ResourceCPU, mapped(each))(device)
		}
		overhead := &resourceapi.NodeAllocatableOverhead{}
		if memory&1 != 0 {
			overhead.PerPod = amount("100Mi")
		}
		if memory&2 != 0 {
			overhead.PerContainer = amount("300Mi")
		}
		if memory > 0 {
			stands(v1.ResourceMemory, resourceapi.NodeAllocatableResource{Overhead: overhead})(device)
		}
		if huge {
			stands("hugepages-2Mi", mapped("512Mi"))(device)
		}
	}
}

// randomClaim returns a claim for such devices.
func randomClaim(r *rand.Rand, name string) *resourceapi.ResourceClaim {
	switch r.IntN(8) {
	case 5:
		return builder.Claim(name, builder.Request("r", "net")).Obj()
	case 6: // All that the device has.
		return builder.Claim(name, builder.Request("r", "cores"), builder.Request("s", "cpu")).Obj()
	case 7:
		return builder.Claim(name, builder.FirstAvailable("r", builder.Request("all", "cpu").All(), builder.Request("some", "cores").Capacity("cores", "2"))).Obj()
	case 0:
		return builder.Claim(name, builder.Request("r", "cores").Capacity("cores", pick(r, "1", "2", "3"))).Obj()
	case 1:
		return builder.Claim(name, builder.Request("r", "cpu").All()).Obj()
	case 2:
		return builder.Claim(name, builder.FirstAvailable("r", builder.Request("many", "cpu").Count(3), builder.Request("one", "cpu"))).Obj()
	case 3:
		return builder.Claim(name, builder.Request("r", "cpu"), builder.Request("s", "cores").Capacity("cores", "1")).Obj()
	}
	return builder.Claim(name, builder.Request("r", "cpu").Count(int64(1+r.IntN(3)))).Obj()
}

// randomPod returns a pod with some of the claims, whose containers use some of them.
func randomPod(r *rand.Rand, name string, claims []string) *v1.Pod {
	pod := newPod(name)
	for _, claim := range claims {
		if r.IntN(3) == 0 {
			template("t-" + claim)(pod)
			made("t-"+claim, claim)(pod)
		} else {
			uses(claim)(pod)
		}
	}
	builder.InitContainer("init", "cpu", pick(r, "0", "1"))(pod)
	if r.IntN(3) == 0 {
		builder.Sidecar("sidecar", "cpu", pick(r, "0", "250m"))(pod)
	}
	for i := range pod.Spec.InitContainers {
		for _, claim := range pod.Spec.ResourceClaims {
			if r.IntN(3) == 0 {
				pod.Spec.InitContainers[i].Resources.Claims = append(pod.Spec.InitContainers[i].Resources.Claims, v1.ResourceClaim{Name: claim.Name})
			}
		}
	}
	for i := range 1 + r.IntN(2) {
		builder.Container(fmt.Sprint("c", i), "cpu", pick(r, "0", "250m", "1"))(pod)
		container := &pod.Spec.Containers[i]
		for _, claim := range pod.Spec.ResourceClaims {
			if r.IntN(3) > 0 {
				container.Resources.Claims = append(container.Resources.Claims, v1.ResourceClaim{Name: claim.Name})
			}
		}
	}
	if r.IntN(4) == 0 {
		pod.Spec.Resources = &v1.ResourceRequirements{Requests: builder.Resources("cpu", pick(r, "2", "4"))}
		if r.IntN(2) == 0 {
			pod.Spec.Containers[0].Resources.Limits = builder.Resources("cpu", "1", "hugepages-2Mi", "256Mi")
			pod.Spec.Resources.Limits = builder.Resources("cpu", pick(r, "2", "4"), "hugepages-2Mi", pick(r, "256Mi", "1Gi"))
		}
	}
	return pod
}
