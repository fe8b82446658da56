package quartermaster

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// requests adds a container that asks for one unit of a resource.
func requests(name v1.ResourceName) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{
			Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{name: resource.MustParse("1")}},
		})
	}
}

func resizeDeferred(pod *v1.Pod) {
	pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{
		Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: v1.PodReasonDeferred,
	})
}

func TestPreFilterSkips(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pod    *v1.Pod
		resize bool // the feature
		want   bool
	}{
		"no claims":                       {pod: newPod("p"), want: true},
		"no claims that are needed":       {pod: newPod("p", template("gpu"), made("gpu", "")), want: true},
		"claim":                           {pod: newPod("p", uses("c"))},
		"ordinary resources":              {pod: newPod("p", requests(v1.ResourceCPU)), want: true},
		"extended resource without class": {pod: newPod("p", requests("example.com/fpga")), want: true},
		"extended resource with class":    {pod: newPod("p", requests("example.com/gpu"))},
		"resize deferred":                 {pod: newPod("p", uses("c"), resizeDeferred), resize: true, want: true},
		"resize deferred, feature off":    {pod: newPod("p", uses("c"), resizeDeferred)},
		"no resize":                       {pod: newPod("p", uses("c")), resize: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := plus(gpuNodes(1, "n1"), gpus("c", 1).Obj(), extendedClass())
			inCluster(t, objects, func(t *testing.T, f *fixture) {
				f.pl.features.EnableInPlacePodVerticalScalingSchedulerPreemption = test.resize
				a, status := f.begin(test.pod)
				require.True(t, status.IsSuccess(), "%v", status)
				require.Equal(t, test.want, a.skipped)
				if !test.want {
					return
				}
				// The scheduler runs the later phases of a plugin that skipped, except Filter and Score.
				require.True(t, f.pl.Reserve(f.ctx, a.state, test.pod, "n1").IsSuccess())
				_, flight := f.pl.PreBindPreFlight(f.ctx, a.state, test.pod, "n1")
				require.True(t, flight.IsSkip())
				_, postFilter := f.pl.PostFilter(f.ctx, a.state, test.pod, nil)
				require.Equal(t, fwk.Unschedulable, postFilter.Code())
				a.unreserve("n1")
				require.Empty(t, f.writes)
			})
		})
	}
}

// users returns n consumers that are not pods of the test.
func users(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("user-%d", i)
	}
	return names
}

func invalidNodeSelector(claim *resourceapi.ResourceClaim) {
	claim.Status.Allocation.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: "a", Operator: "Like", Values: []string{"b"}}},
	}}}
}

func TestPreFilterChecksClaims(t *testing.T) {
	t.Parallel()
	const limit = resourceapi.ResourceClaimReservedForMaxSize
	allocated := gpus("c", 1).Allocated("n1", "gpu-0")
	tests := map[string]struct {
		claim *resourceapi.ResourceClaim
		want  string // "" if the pod may pass
	}{
		"unallocated":              {claim: gpus("c", 1).Obj()},
		"allocated":                {claim: allocated},
		"one consumer less":        {claim: with(allocated, reservedFor(users(limit-1)...))},
		"full":                     {claim: with(allocated, reservedFor(users(limit)...)), want: "resourceclaim in use: claim default/c is reserved for 256 pods (the limit)"},
		"full, but one is the pod": {claim: with(allocated, reservedFor(users(limit-1)...), reservedFor("p"))},
		"bad node selector":        {claim: with(allocated, invalidNodeSelector), want: "claim default/c: the node selector of its allocation cannot be parsed"},
		"class missing":            {claim: builder.Claim("c", builder.Request("r", "absent")).Obj(), want: "claim default/c request r: device class absent does not exist"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, plus(gpuNodes(1, "n1"), test.claim), func(t *testing.T, f *fixture) {
				_, status := f.begin(newPod("p", uses("c")))
				if test.want == "" {
					require.True(t, status.IsSuccess(), "%v", status)
					return
				}
				require.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
				require.Contains(t, status.Message(), test.want)
			})
		})
	}
}

func TestPreFilterRejectsClaimInFlightForAnotherPod(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(gpuNodes(2, "n1"), gpus("shared", 1).Obj()), func(t *testing.T, f *fixture) {
		first := f.mustBegin(newPod("first", uses("shared"))).filter()
		require.NoError(t, first.reserve("n1").AsError())

		second := newPod("second", uses("shared"))
		_, status := f.begin(second)
		require.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
		require.Equal(t, "claim default/shared is being allocated for another pod; waiting for that to be done", status.Message())

		require.NoError(t, first.preBind("n1").AsError())
		result := f.schedule(second)
		require.Empty(t, result.phase, "%v", result.status)
		require.Equal(t, []string{"first", "second"}, consumerNames(f.claim("shared")))
	})
}

func TestPreFilterKnowsWhatIsInFlightFromOtherProfiles(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(gpuNodes(1, "n1"), gpus("a", 1).Obj()), func(t *testing.T, f *fixture) {
		other := newProfile(f, "other")
		require.NoError(t, other.state.Ledger.AddInFlight(ledger.RefTo(f.claim("a")), "other-pod", gpus("a", 1).Allocated("n1", "gpu-0").Status.Allocation))
		_, status := f.begin(newPod("p", uses("a")))
		require.Contains(t, status.Message(), "claim default/a is being allocated for another pod")
		other.state.Ledger.RemoveInFlight(f.claim("a").UID, "other-pod")
	})
}

// extendedClass backs extended resource example.com/gpu.
func extendedClass() runtime.Object {
	class := builder.Class("extended")
	name := "example.com/gpu"
	class.Spec.ExtendedResourceName = &name
	return class
}
