package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/resource"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
)

func TestFilterExtendedResources(t *testing.T) {
	t.Parallel()
	nics := func(node string) runtime.Object {
		return builder.NodeSlice(node, builder.NumberedDevices("nic", 1)...).InPool(node+"-nics", 1, 1).OfDriver("nic.example.com").Obj()
	}
	const nicOnly = `device.driver == "nic.example.com"`
	const gpuOnly = `device.driver != "nic.example.com"`
	twoClasses := []runtime.Object{serving(builder.Class("gpu", gpuOnly), gpuResource), serving(builder.Class("nic", nicOnly), nicResource)}
	tests := map[string]struct {
		objects []runtime.Object
		pod     *v1.Pod
		skipped bool
		want    []string
		reasons map[string]string
	}{
		"explicit name": {objects: servedNodes(1, "n1"), pod: gpuPod("p", "1"), want: []string{"n1"}},
		"implicit name": {objects: gpuNodes(1, "n1"), pod: newPod("p", asks("main", implicitGPU, "1")), want: []string{"n1"}},
		"too many": {
			objects: servedNodes(2, "n1"), pod: gpuPod("p", "3"),
			reasons: map[string]string{"n1": "cannot allocate all claims: extended resource example.com/gpu of container main: 2 devices match, 3 are wanted"},
		},
		"no class": {objects: gpuNodes(1, "n1"), pod: gpuPod("p", "1"), skipped: true, want: []string{"n1"}},
		"none of it wanted": {
			objects: servedNodes(1, "n1"), pod: gpuPod("p", "0"), skipped: true, want: []string{"n1"},
		},
		"a device plugin offers it on one node, devices serve it on another": {
			objects: append(servedNodes(1, "n1"), offering("n2", gpuResource, "4"), offering("n3", gpuResource, "0"), builder.Node("n4"),
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
			objects: append(servedNodes(1, "n1"), offering("n2", gpuResource, "4", nicResource, "1")),
			pod:     gpuPod("p", "1", asks("net", nicResource, "1")), want: []string{"n2"},
			reasons: map[string]string{"n1": "the node does not offer example.com/nic, and no device class stands for it"},
		},
		"with a claim": {
			objects: append(servedNodes(2, "n1"), gpus("c", 1).Obj()),
			pod:     gpuPod("p", "1", uses("c")), want: []string{"n1"},
		},
		"with a claim, both do not fit": {
			objects: append(servedNodes(2, "n1"), gpus("c", 2).Obj(), offering("n2", gpuResource, "1"),
				builder.NodeSlice("n2", builder.NumberedDevices("gpu", 2)...).Obj()),
			pod: gpuPod("p", "1", uses("c")), want: []string{"n2"},
			reasons: map[string]string{"n1": "cannot allocate all claims: claims default/c and the pod's extended resources want 3 devices of class gpu together, 2 match"},
		},
		"more requests than a claim can have": {
			objects: append(servedNodes(32, "n1"), offering("n2", gpuResource, "64")),
			pod:     newPod("p", many(33, gpuResource)...), want: []string{"n2"},
			reasons: map[string]string{"n1": "the extended resources of the pod's containers would take 33 requests for devices, " +
				"a claim can have 32; use ResourceClaims, or fewer containers that ask for devices"},
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
	inCluster(t, servedNodes(0, "n1"), func(t *testing.T, f *fixture) {
		pod := gpuPod("p", "1", func(pod *v1.Pod) {
			pod.Spec.NodeName = "n1"
			pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Reason: v1.PodReasonDeferred, Status: v1.ConditionTrue}}
		})
		require.True(t, resource.IsPodResizeDeferred(pod))
		f.pl.features.EnableInPlacePodVerticalScalingSchedulerPreemption = true
		require.True(t, f.mustBegin(pod).skipped)
	})
}

// TestFeatureOff: without the feature, such a pod is of no concern to the plugin.
func TestFeatureOff(t *testing.T) {
	t.Parallel()
	inCluster(t, servedNodes(0, "n1"), func(t *testing.T, f *fixture) {
		f.pl.features.EnableDRAExtendedResource = false
		require.True(t, f.mustBegin(gpuPod("p", "1")).skipped)
	})
}

// TestClassAppearsWhileThePodIsScheduled: NodeResourcesFit then leaves nodes to devices
// that nobody has looked for.
func TestClassAppearsWhileThePodIsScheduled(t *testing.T) {
	t.Parallel()
	inCluster(t, append(gpuNodes(1, "n1"), gpus("c", 1).Obj()), func(t *testing.T, f *fixture) {
		for name, pod := range map[string]*v1.Pod{"alone": gpuPod("p", "1"), "with a claim": gpuPod("q", "1", uses("c"))} {
			a := f.mustBegin(pod).filter()
			require.Equal(t, []string{"n1"}, a.feasible, name)
			f.replace(servingClass("gpu", gpuResource))
			f.settle()
			status := a.reserve("n1")
			require.Equal(t, "device class gpu stands for extended resource example.com/gpu since the pod was looked at; trying again", status.Message(), name)
			f.replace(builder.Class("gpu"))
			f.settle()
		}
	})
}
