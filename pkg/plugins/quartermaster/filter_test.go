package quartermaster

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/draoptionalnodeoperations"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

func TestFilter(t *testing.T) {
	t.Parallel()
	skipsOperations := func(claim *resourceapi.ResourceClaim) {
		claim.Status.Allocation.Devices.Results[0].SkipNodeOperations = []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll}
	}
	declares := builder.Node("n2")
	declares.Status.DeclaredFeatures = []string{draoptionalnodeoperations.DRAOptionalNodeOperationsFeatureGate}
	tests := map[string]struct {
		objects []runtime.Object
		pod     *v1.Pod
		want    []string          // feasible nodes
		reasons map[string]string // of the others
	}{
		"free device on each node": {
			objects: plus(gpuNodes(1, "n1", "n2"), gpus("c", 1).Obj()),
			pod:     newPod("p", uses("c")), want: []string{"n1", "n2"},
		},
		"too few devices": {
			objects: plus(append(gpuNodes(1, "n1"), gpuNodes(2, "n2")[1:]...), gpus("c", 2).Obj()),
			pod:     newPod("p", uses("c")), want: []string{"n2"},
			reasons: map[string]string{"n1": "cannot allocate all claims: claim default/c request gpu: 1 device matches: 2 asked"},
		},
		"devices held": {
			objects: plus(gpuNodes(2, "n1"), gpus("c", 1).Obj(), gpus("other", 2).Allocated("n1", "gpu-0", "gpu-1")),
			pod:     newPod("p", uses("c")),
			reasons: map[string]string{"n1": "cannot allocate all claims: claim default/c request gpu: 2 devices match: 1 asked; 0 free; 2 held by other claims"},
		},
		"claims made from templates": {
			objects: plus(gpuNodes(2, "n1"), with(gpus("c", 1).Obj(), ownedBy("p"), calledByPod("mine")),
				with(gpus("d", 2).Obj(), ownedBy("p"), calledByPod("more"))),
			pod:     newPod("p", template("mine"), made("mine", "c"), template("more"), made("more", "d")),
			reasons: map[string]string{"n1": "cannot allocate all claims: claims mine of the pod and more of the pod want 3 devices of class gpu together; 2 match"},
		},
		"a pool that contradicts itself": {
			objects: plus(gpuNodes(1, "n1"), gpus("c", 2).Obj(), builder.Slice("a").InPool("twice", 1, 2).OnNode("n1").Devices(builder.Device("gpu-0")).Obj(),
				builder.Slice("b").InPool("twice", 1, 2).OnNode("n1").Devices(builder.Device("gpu-0")).Obj()),
			pod:     newPod("p", uses("c")),
			reasons: map[string]string{"n1": "invalid resource pools were encountered: claim default/c request gpu: 1 device matches: 2 asked; resource pool gpu.example.com/twice is left out as invalid (device name gpu-0 is not unique)"},
		},
		"several claims": {
			objects: plus(gpuNodes(2, "n1"), gpus("a", 1).Obj(), gpus("b", 2).Obj()),
			pod:     newPod("p", uses("a"), uses("b")),
			reasons: map[string]string{"n1": "cannot allocate all claims: claims default/a and default/b want 3 devices of class gpu together; 2 match"},
		},
		"allocated on one node": {
			objects: plus(gpuNodes(1, "n1", "n2"), with(gpus("c", 1).Allocated("n2", "gpu-0"), onNode("n2"))),
			pod:     newPod("p", uses("c")), want: []string{"n2"},
			reasons: map[string]string{"n1": "resourceclaim not available on the node: claim default/c is allocated on other nodes"},
		},
		"allocated on all nodes": {
			objects: plus(gpuNodes(1, "n1", "n2"), gpus("c", 1).Allocated("network", "nic")),
			pod:     newPod("p", uses("c")), want: []string{"n1", "n2"},
		},
		"allocated and not yet": {
			objects: plus(gpuNodes(1, "n1", "n2"), with(gpus("a", 1).Allocated("n2", "gpu-0"), onNode("n2")), gpus("b", 1).Obj()),
			pod:     newPod("p", uses("a"), uses("b")),
			reasons: map[string]string{
				"n1": "resourceclaim not available on the node: claim default/a is allocated on other nodes",
				"n2": "claim default/b request gpu: 1 device matches: 1 asked; 0 free; 1 held by another claim",
			},
		},
		"needs a kubelet that skips operations": {
			objects: plus(gpuNodes(1, "n1"), declares, with(gpus("c", 1).Allocated("network", "nic"), skipsOperations)),
			pod:     newPod("p", uses("c")), want: []string{"n2"},
			reasons: map[string]string{"n1": "resourceclaim not available on the node: claim default/c is allocated on other nodes"},
		},
		"selector fails on one node only": {
			objects: []runtime.Object{
				builder.Class("gpu", `device.attributes["gpu.example.com"].mem > 1`), gpus("c", 1).Obj(),
				builder.Node("n1"), builder.NodeSlice("n1", builder.Device("gpu-0")).Obj(),
				builder.Node("n2"), builder.NodeSlice("n2", builder.Device("gpu-0").Attr("mem", 2)).Obj(),
			},
			pod: newPod("p", uses("c")), want: []string{"n2"},
			reasons: map[string]string{"n1": "cannot allocate all claims: claim default/c request gpu selector 0 of device class gpu on device gpu-0: CEL runtime error: no such key: mem"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, test.objects, func(t *testing.T, f *fixture) {
				a := f.mustBegin(test.pod).filter()
				require.Empty(t, cmp.Diff(test.want, a.feasible), "feasible nodes; reasons %v", a.reasons)
				require.Len(t, a.reasons, len(test.reasons), "%v", a.reasons)
				for node, reason := range test.reasons {
					require.Contains(t, a.reasons[node], reason, "node %s", node)
				}
			})
		})
	}
}

func TestFilterOfExtendedResources(t *testing.T) {
	t.Parallel()
	plugin := builder.Node("with-device-plugin")
	plugin.Status.Allocatable = v1.ResourceList{"example.com/gpu": resource.MustParse("2")}
	gone := builder.Node("with-empty-device-plugin")
	gone.Status.Allocatable = v1.ResourceList{"example.com/gpu": resource.MustParse("0")}
	objects := []runtime.Object{extendedClass(), builder.Node("without"), plugin, gone}
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		a := f.mustBegin(newPod("p", requests("example.com/gpu"))).filter()
		require.Equal(t, []string{"with-device-plugin"}, a.feasible)
		for _, node := range []string{"without", "with-empty-device-plugin"} {
			require.Contains(t, a.reasons[node], "the node has no devices that can be used")
		}
		require.NoError(t, a.reserve("with-device-plugin").AsError())
		require.NoError(t, a.preBind("with-device-plugin").AsError())
		require.Empty(t, f.writes, "there is no claim to write")
	})
}

// TestFilterToldToStop: the scheduler ends the context of Filter once it has enough nodes. That must not be an error,
// which would fail the pod.
func TestFilterToldToStop(t *testing.T) {
	t.Parallel()
	// No two devices match, so that there are many pairs to try.
	slice := builder.NodeSlice("n1")
	for i, device := range builder.NumberedDevices("gpu", 16) {
		slice.Devices(device.Attr("gpu.example.com/island", i))
	}
	claim := gpus("c", 2).Match("gpu.example.com/island").Obj()
	inCluster(t, []runtime.Object{builder.Class("gpu"), builder.Node("n1"), slice.Obj(), claim}, func(t *testing.T, f *fixture) {
		a := f.mustBegin(newPod("p", uses("c")))
		ctx, cancel := context.WithCancelCause(f.ctx)
		cancel(errors.New("enough nodes found"))
		status := f.pl.Filter(ctx, a.state, a.pod, f.nodeInfos()[0])
		require.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
		require.Equal(t, "told to stop looking for devices: enough nodes found", status.Message())
	})
}
