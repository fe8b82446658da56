package quartermaster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/resource"

	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

func TestFilterExtendedResources(t *testing.T) {
	t.Parallel()
	nics := func(node string) runtime.Object {
		return builder.NodeSlice(node, builder.NumberedDevices("nic", 1)...).InPool(node+"-nics", 1, 1).OfDriver("nic.example.com").Obj()
	}
	const nicOnly = `device.driver == "nic.example.com"`
	const gpuOnly = `device.driver != "nic.example.com"`
	twoClasses := []runtime.Object{backing(builder.Class("gpu", gpuOnly), gpuResource), backing(builder.Class("nic", nicOnly), nicResource)}
	tests := map[string]struct {
		objects []runtime.Object
		pod     *v1.Pod
		skipped bool
		want    []string
		reasons map[string]string
	}{
		"explicit name": {objects: backedNodes(1, "n1"), pod: gpuPod("p", "1"), want: []string{"n1"}},
		"implicit name": {objects: gpuNodes(1, "n1"), pod: newPod("p", asks("main", implicitGPU, "1")), want: []string{"n1"}},
		"too many": {
			objects: backedNodes(2, "n1"), pod: gpuPod("p", "3"),
			reasons: map[string]string{"n1": "cannot allocate all claims: extended resource example.com/gpu of container main: 2 devices match: 3 asked"},
		},
		"no class": {objects: gpuNodes(1, "n1"), pod: gpuPod("p", "1"), skipped: true, want: []string{"n1"}},
		"none of it wanted": {
			objects: backedNodes(1, "n1"), pod: gpuPod("p", "0"), skipped: true, want: []string{"n1"},
		},
		"a device plugin offers it on one node, devices back it on another": {
			objects: append(backedNodes(1, "n1"), offering("n2", gpuResource, "4"), offering("n3", gpuResource, "0"), builder.Node("n4"),
				builder.NodeSlice("n3", builder.Device("gpu")).Obj()),
			pod: gpuPod("p", "1"), want: []string{"n1", "n2", "n3"},
			reasons: map[string]string{"n4": "cannot allocate all claims: extended resource example.com/gpu of container main: the node has no devices that can be used"},
		},
		"one by device plugin, the other by devices": {
			objects: plus(twoClasses, offering("n1", gpuResource, "4"), nics("n1"), offering("n2", nicResource, "1"), nics("n2")),
			pod:     gpuPod("p", "1", asks("net", nicResource, "1")), want: []string{"n1"},
			reasons: map[string]string{"n2": "cannot allocate all claims: extended resource example.com/gpu of container main: no device matches class gpu"},
		},
		"no class stands for the other one": {
			objects: append(backedNodes(1, "n1"), offering("n2", gpuResource, "4", nicResource, "1")),
			pod:     gpuPod("p", "1", asks("net", nicResource, "1")), want: []string{"n2"},
			reasons: map[string]string{"n1": "the node does not offer example.com/nic and no device class stands for it"},
		},
		"with a claim": {
			objects: append(backedNodes(2, "n1"), gpus("c", 1).Obj()),
			pod:     gpuPod("p", "1", uses("c")), want: []string{"n1"},
		},
		"with a claim, both do not fit": {
			objects: append(backedNodes(2, "n1"), gpus("c", 2).Obj(), offering("n2", gpuResource, "1"),
				builder.NodeSlice("n2", builder.NumberedDevices("gpu", 2)...).Obj()),
			pod: gpuPod("p", "1", uses("c")), want: []string{"n2"},
			reasons: map[string]string{"n1": "cannot allocate all claims: claims default/c and the pod's extended resources want 3 devices of class gpu together; 2 match"},
		},
		"more requests than a claim can have": {
			objects: append(backedNodes(32, "n1"), offering("n2", gpuResource, "64")),
			pod:     newPod("p", many(33, gpuResource)...), want: []string{"n2"},
			reasons: map[string]string{"n1": "the extended resources of the pod's containers would take 33 requests for devices; " +
				"a claim can have 32; use ResourceClaims or fewer containers that ask for devices"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, test.objects, func(t *testing.T, f *fixture) {
				a := f.mustBegin(test.pod).filter()
				require.Equal(t, test.skipped, a.skipped)
				require.Equal(t, test.want, a.feasible, "%v", a.reasons)
				if test.reasons == nil {
					test.reasons = map[string]string{}
				}
				require.Equal(t, test.reasons, a.reasons)
			})
		})
	}
}

// TestResizeLeavesExtendedResourcesAlone: devices do not change with the pod's size.
func TestResizeLeavesExtendedResourcesAlone(t *testing.T) {
	t.Parallel()
	inCluster(t, backedNodes(0, "n1"), func(t *testing.T, f *fixture) {
		pod := gpuPod("p", "1", func(pod *v1.Pod) {
			pod.Spec.NodeName = "n1"
			pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Reason: v1.PodReasonDeferred, Status: v1.ConditionTrue}}
		})
		require.True(t, resource.IsPodResizeDeferred(pod))
		f.pl.features.EnableInPlacePodVerticalScalingSchedulerPreemption = true
		require.True(t, f.mustBegin(pod).skipped)
	})
}

// TestFeatureOff: without the feature, the plugin ignores such a pod.
func TestFeatureOff(t *testing.T) {
	t.Parallel()
	inCluster(t, backedNodes(0, "n1"), func(t *testing.T, f *fixture) {
		f.pl.needs.Classes, f.pl.features.EnableDRAExtendedResource = nil, false
		require.True(t, f.mustBegin(gpuPod("p", "1")).skipped)
	})
}

// TestClassAppearsWhileThePodIsScheduled: NodeResourcesFit then relies on devices that no Filter has looked for.
func TestClassAppearsWhileThePodIsScheduled(t *testing.T) {
	t.Parallel()
	inCluster(t, append(gpuNodes(1, "n1"), gpus("c", 1).Obj()), func(t *testing.T, f *fixture) {
		for name, pod := range map[string]*v1.Pod{"alone": gpuPod("p", "1"), "with a claim": gpuPod("q", "1", uses("c"))} {
			a := f.mustBegin(pod).filter()
			require.Equal(t, []string{"n1"}, a.feasible, name)
			f.replace(backingClass("gpu", gpuResource))
			f.settle()
			status := a.reserve("n1")
			require.Equal(t, "device class gpu stands for extended resource example.com/gpu since the pod was looked at; trying again", status.Message(), name)
			f.replace(builder.Class("gpu"))
			f.settle()
		}
	})
}

// gpuResource is the extended resource of class gpu, and implicitGPU its other name.
const (
	gpuResource = "example.com/gpu"
	nicResource = "example.com/nic"
	implicitGPU = resourceapi.ResourceDeviceClassPrefix + "gpu"
)

// asks adds a container that asks for resources: name, quantity and so on.
func asks(name string, resources ...string) func(*v1.Pod) {
	return builder.Container(name, resources...)
}

// many makes n containers that ask for one each.
func many(n int, resource string) []func(*v1.Pod) {
	var containers []func(*v1.Pod)
	for i := range n {
		containers = append(containers, asks(fmt.Sprintf("c%d", i), resource, "1"))
	}
	return containers
}

// gpuPod asks for GPUs as extended resource.
func gpuPod(name, quantity string, edits ...func(*v1.Pod)) *v1.Pod {
	return newPod(name, append([]func(*v1.Pod){asks("main", gpuResource, quantity)}, edits...)...)
}

// backingClass is a class that stands for an extended resource.
func backingClass(name, resource string) *resourceapi.DeviceClass {
	return backing(builder.Class(name), resource)
}

func backing(class *resourceapi.DeviceClass, resource string) *resourceapi.DeviceClass {
	class.Spec.ExtendedResourceName = &resource
	return class
}

// offering is a node where a device plugin offers resources: name, quantity and so on.
func offering(node string, resources ...string) *v1.Node {
	result := builder.Node(node)
	result.Status.Allocatable = builder.Resources(resources...)
	return result
}

// backedNodes is gpuNodes with a class that stands for gpuResource.
func backedNodes(n int, names ...string) []runtime.Object {
	objects := gpuNodes(n, names...)
	objects[0] = backingClass("gpu", gpuResource)
	return objects
}

// TestNarrowForExtendedResources: in a full cluster, PreFilter names the nodes with
// devices and those where a device plugin offers the resource, and no others.
func TestNarrowForExtendedResources(t *testing.T) {
	t.Parallel()
	const nodes = 8
	objects := backedNodes(0)
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		objects = append(objects, builder.Node(name), builder.NodeSlice(name, builder.Device("gpu-0")).Obj())
		if i > 0 {
			objects = append(objects, gpus("c-"+name, 1).Allocated(name, "gpu-0"))
		}
	}
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		f.pl.chooser.IsFirst = func() bool { return true }
		names := func(pod *v1.Pod) []string {
			a := f.mustBegin(pod)
			c, err := cycleOf(a.state)
			require.NoError(t, err)
			return sets.List(c.narrowedTo)
		}
		require.Equal(t, []string{"n0"}, names(gpuPod("p", "1")))

		for _, change := range []runtime.Object{offering("n3", gpuResource, "1"), offering("n4", nicResource, "1")} {
			f.replace(change)
		}
		f.settle()
		require.Equal(t, []string{"n0", "n3"}, names(gpuPod("p", "1")))
		for i := range nodes / 2 {
			f.replace(offering(fmt.Sprintf("n%d", i+3), gpuResource, "1"))
		}
		f.settle()
		require.Empty(t, names(gpuPod("p", "1")), "they are too many")

		// What is left over of an earlier attempt decides where the pod goes.
		pod := gpuPod("again", "1")
		left := with(extended.NewClaim(pod), allocate("n5", "gpu-0"), reservedFor("again"), func(claim *resourceapi.ResourceClaim) {
			claim.Spec.Devices.Requests = extended.RequestsFor(pod, f.pl.needs.Of(pod).Resources).Devices
			claim.Status.Allocation.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"n7"}}},
			}}}
		})
		f.create(left)
		f.settle()
		require.Equal(t, []string{"n7"}, names(pod))
	})
}

// An API server that does not know the field in the pod's status must not get pods that
// need it onto nodes where devices would back them.
func TestExtendedResourcesOnAnOldServer(t *testing.T) {
	t.Parallel()
	inCluster(t, append(backedNodes(1, "n1"), offering("n2", gpuResource, "4")), func(t *testing.T, f *fixture) {
		f.pl.claims.Server = otherServer{f.pl.claims.Server, nil, 256, false}
		a := f.mustBegin(gpuPod("p", "1")).filter()
		require.Equal(t, []string{"n2"}, a.feasible, "where a device plugin offers it, nothing has to be recorded")
		require.Contains(t, a.reasons["n1"], "the API server is too old")
		require.Contains(t, a.reasons["n1"], "use a ResourceClaim")
	})
}

// A server that drops the field says nothing. The pod is not bound, and nothing stays.
func TestExtendedStatusIsDropped(t *testing.T) {
	t.Parallel()
	inCluster(t, backedNodes(1, "n1"), func(t *testing.T, f *fixture) {
		f.server.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &v1.Pod{}, nil
		})
		pod := gpuPod("p", "1")
		f.create(pod)
		result := f.schedule(pod)
		require.Equal(t, "PreBind", result.phase)
		require.Contains(t, result.text(), "has stored")
		require.Contains(t, result.text(), "DRAExtendedResource")
		f.settle()
		require.Empty(t, f.claimsFor(pod.UID))
		require.Empty(t, f.inUse("n1"))
	})
}

// managed returns the devices that are in use as NodeResourcesFit sees it, sorted.
func (f *fixture) managed() []string {
	state, err := f.pl.scoring.Claims.GatherAllocatedState()
	require.NoError(f.t, err)
	var devices []string
	for id := range state.AllocatedDevices {
		devices = append(devices, id.Pool.String()+"/"+id.Device.String())
	}
	slices.Sort(devices)
	return devices
}

// TestScoringSeesWhatIsInFlight: from Reserve on, at every step, and not after a failure.
func TestScoringSeesWhatIsInFlight(t *testing.T) {
	t.Parallel()
	inCluster(t, append(backedNodes(3, "n1"), gpus("c", 1).Obj()), func(t *testing.T, f *fixture) {
		plain := f.mustBegin(newPod("plain", uses("c"))).filter()
		require.NoError(t, plain.reserve("n1").AsError())
		require.Empty(t, f.managed(), "nobody looks")
		plain.unreserve("n1")

		pod := gpuPod("p", "2", uses("c"))
		f.create(pod)
		a := f.mustBegin(pod).filter()
		require.NoError(t, a.reserve("n1").AsError())
		all := []string{"n1/gpu-0", "n1/gpu-1", "n1/gpu-2"}
		require.Equal(t, all, f.managed())
		a.unreserve("n1")
		require.Empty(t, f.managed())

		require.NoError(t, a.reserve("n1").AsError())
		f.fail(fault{on: "patch/status", before: func() { require.Equal(t, all, f.managed(), "everything was written") }})
		require.NoError(t, a.preBind("n1").AsError())
		require.Equal(t, all, f.managed())
		f.settle()
		time.Sleep(2 * extended.ManagerInterval)
		f.settle()
		require.Equal(t, all, f.managed())
		require.Nil(t, f.pl.scoring.Claims.GetPendingAllocation(f.claim("c").UID), "the manager has it from the informer")

		a.unreserve("n1")
		f.settle()
		require.Empty(t, f.managed())
	})
}

// TestScoringWithLateInformer: the claim was created and bound before the manager hears of
// it. Until then it stays in flight there.
func TestScoringWithLateInformer(t *testing.T) {
	t.Parallel()
	inCluster(t, backedNodes(1, "n1"), func(t *testing.T, f *fixture) {
		written := with(extended.NewClaim(gpuPod("p", "1")), allocate("n1", "gpu-0"), func(claim *resourceapi.ResourceClaim) {
			claim.ResourceVersion = "2000000"
		})
		f.pl.scoring.Begin()
		told := f.pl.scoring.InFlight(extended.NewClaim(gpuPod("p", "1")), written.Status.Allocation, false)
		f.pl.scoring.Written(told, written)
		time.Sleep(3 * extended.ManagerInterval)
		require.Equal(t, []string{"n1/gpu-0"}, f.managed())

		early := written.DeepCopy()
		early.ResourceVersion, early.Status = "1999999", resourceapi.ResourceClaimStatus{}
		f.assume.OnAdd(early, false)
		time.Sleep(2 * extended.ManagerInterval)
		require.Equal(t, []string{"n1/gpu-0"}, f.managed(), "the later state counts")
		f.assume.OnDelete(cache.DeletedFinalStateUnknown{Key: "default/" + written.Name, Obj: written})
		require.Empty(t, f.managed(), "nothing is in flight any more")
	})
}
