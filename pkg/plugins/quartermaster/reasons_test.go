package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/internal/queue/reasons"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// waits returns how many pods wait, by cause.
func (f *fixture) waits() map[string]int {
	var counts reasons.Counts
	f.pl.waiting.Count(&counts)
	result := make(map[string]int)
	for cause, n := range counts {
		if n > 0 {
			result[reasons.Cause(cause).String()] = n
		}
	}
	return result
}

// TestWaitCauses: each way of not getting devices is counted under its cause, until the pod is gone.
func TestWaitCauses(t *testing.T) {
	t.Parallel()
	limit := make([]string, resourceapi.ResourceClaimReservedForMaxSize)
	for i := range limit {
		limit[i] = "other-" + string(rune('a'+i/26)) + string(rune('a'+i%26))
	}
	tests := map[string]struct {
		objects []runtime.Object
		pod     *v1.Pod // p, if nothing is said, with claim c
		want    string
	}{
		"claim_missing": {objects: gpuNodes(1, "n1"), want: "claim_missing"},
		"class_missing": {objects: plus(gpuNodes(1, "n1"), builder.Claim("c", builder.Request("r", "missing")).Obj()), want: "class_missing"},
		"class_missing of an alternative": {
			objects: plus(gpuNodes(1, "n1"), builder.Claim("c", builder.FirstAvailable("r", builder.Request("x", "missing"), builder.Request("y", "gpu").Count(2))).Obj()),
			want:    "class_missing",
		},
		"request_invalid": {objects: plus(gpuNodes(1, "n1"), builder.Claim("c", builder.Request("r", "gpu").Modify(func(r *resourceapi.ExactDeviceRequest) {
			r.Selectors = []resourceapi.DeviceSelector{{}}
		})).Obj()), want: "request_invalid"},
		"claim_in_use":    {objects: plus(gpuNodes(1, "n1"), with(gpus("c", 1).Allocated("n1", "gpu-0"), reservedFor(limit...))), want: "claim_in_use"},
		"claim_elsewhere": {objects: plus(gpuNodes(1, "n1"), with(gpus("c", 1).Allocated("n2", "gpu-0"), onNode("n2"), reservedFor("other"))), want: "claim_elsewhere"},
		"no_devices":      {objects: plus(gpuNodes(1, "n1"), gpus("c", 2).Obj()), want: "no_devices"},
		"held":            {objects: plus(gpuNodes(1, "n1"), gpus("c", 1).Obj(), gpus("other", 1).Allocated("n1", "gpu-0")), want: "held"},
		"held on one of two nodes": {
			objects: plus(append(gpuNodes(2, "n1"), gpuNodes(1, "n2")[1:]...), gpus("c", 2).Obj(), gpus("other", 1).Allocated("n1", "gpu-0")), want: "held",
		},
		"combination": {
			objects: []runtime.Object{builder.Class("gpu"), builder.Node("n1"), gpus("c", 2).Obj(),
				builder.Slice("counters").InPool("n1", 1, 2).OnNode("n1").Counters("gpu", "memory", "40Gi").Obj(),
				builder.Slice("devices").InPool("n1", 1, 2).OnNode("n1").Devices(
					builder.Device("a").Consumes("gpu", "memory", "30Gi"), builder.Device("b").Consumes("gpu", "memory", "30Gi")).Obj()},
			want: "combination",
		},
		"pool_unusable": {
			objects: plus(gpuNodes(1, "n1"), gpus("c", 2).Obj(), builder.Slice("half").InPool("half", 1, 2).OnNode("n1").Devices(builder.Device("x")).Obj()),
			want:    "pool_unusable",
		},
		"selector_fails": {
			objects: plus(gpuNodes(1, "n1")[1:], builder.Class("gpu", `device.attributes["gpu.example.com"].mem > 1`), gpus("c", 1).Obj()), want: "selector_fails",
		},
		"held_by_lower_priority": {
			objects: plus(gpuNodes(1, "n1"), held(gpus("a", 1).Obj(), "n1", []string{"gpu-0"}, "a"), low("a", "n1", uses("a")), gpus("c", 1).Obj()),
			pod:     high("p", uses("c")), want: "held_by_lower_priority",
		},
		"releasing": {
			objects: plus(gpuNodes(2, "n1"), held(gpus("a", 1).Obj(), "n1", []string{"gpu-0"}, "gone"),
				held(gpus("b", 1).Obj(), "n1", []string{"gpu-1"}, "b"), low("b", "n1", uses("b")), gpus("c", 1).Obj()),
			pod: high("p", uses("c")), want: "releasing",
		},
		"group": {
			objects: plus(gpuNodes(1, "n1"), gpus("c", 1).Obj()),
			pod:     newPod("p", uses("c"), func(pod *v1.Pod) { pod.Labels = map[string]string{"scheduling.x-k8s.io/pod-group": "missing"} }), want: "group",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := test.pod
			if pod == nil {
				pod = newPod("p", uses("c"))
			}
			inCluster(t, plus(test.objects, pod), func(t *testing.T, f *fixture) {
				result := f.schedule(f.pod("p"))
				require.NotEmpty(t, result.phase)
				require.Equal(t, map[string]int{test.want: 1}, f.waits(), "%v %v", result.status, result.reasons)
				f.remove(pod)
				f.settle()
				require.Empty(t, f.waits())
			})
		})
	}
}

// TestWaitsForItsCommit: a pod that has a node waits until it is bound, and one whose commit fails, for the next attempt.
func TestWaitsForItsCommit(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(gpuNodes(1, "n1"), gpus("c", 1).Obj(), newPod("p", uses("c"))), func(t *testing.T, f *fixture) {
		a := f.mustBegin(f.pod("p")).filter()
		require.Empty(t, f.waits())
		require.NoError(t, a.reserve("n1").AsError())
		require.Equal(t, map[string]int{"committing": 1}, f.waits())
		a.unreserve("n1")
		require.Empty(t, f.waits(), "another plugin did not let it go on")

		f.fail(fault{on: "update/status", err: forbidden()})
		require.Equal(t, "PreBind", f.schedule(f.pod("p")).phase)
		require.Equal(t, map[string]int{"commit_failed": 1}, f.waits())

		require.Empty(t, f.schedule(f.pod("p")).phase)
		require.Equal(t, map[string]int{"committing": 1}, f.waits())
		f.replace(newPod("p", uses("c"), func(pod *v1.Pod) { pod.Spec.NodeName = "n1" }))
		f.settle()
		require.Empty(t, f.waits())
	})
}

// TestUndecidedCounts: a search that gave up counts as undecided, rather than as devices held elsewhere.
func TestUndecidedCounts(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(oddNode("odd", 8*39+1), builder.Class("gpu"), gpus("c", 8).Obj(), newPod("p", uses("c"))), func(t *testing.T, f *fixture) {
		f.setStepBudgets(1000, 20_000)
		require.Equal(t, "Filter", f.schedule(f.pod("p")).phase)
		require.Equal(t, map[string]int{"undecided": 1}, f.waits())
	})
}

// TestConflictCounts: another scheduler allocated the device first.
func TestConflictCounts(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(gpuNodes(1, "n1"), gpus("c", 1).Obj(), newPod("p", uses("c"))), func(t *testing.T, f *fixture) {
		a := f.mustBegin(f.pod("p")).filter()
		f.create(gpus("other", 1).Allocated("n1", "gpu-0"))
		f.settle()
		require.Error(t, a.reserve("n1").AsError())
		a.unreserve("n1")
		require.Equal(t, map[string]int{"conflict": 1}, f.waits())
	})
}
