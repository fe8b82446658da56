package builder

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

func TestClaim(t *testing.T) {
	t.Parallel()
	claim := Claim("c",
		Request("gpu", "g").Count(2).Where("true").Tolerate("k", "NoSchedule"),
		Request("gpu", "g").All().Admin().Named("all"),
		FirstAvailable("any", Request("large", "l"), Request("small", "s").Count(2)),
	).Match("d/root", "gpu", "all").Distinct("d/board").Config("d", `{"a":1}`, "gpu")
	want := resourceapi.DeviceClaim{
		Requests: []resourceapi.DeviceRequest{
			{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: "g", AllocationMode: "ExactCount", Count: 2,
				Selectors:   []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: "true"}}},
				Tolerations: []resourceapi.DeviceToleration{{Key: "k", Operator: "Exists", Effect: "NoSchedule"}},
			}},
			{Name: "all", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "g", AllocationMode: "All", AdminAccess: ptr.To(true)}},
			{Name: "any", FirstAvailable: []resourceapi.DeviceSubRequest{
				{Name: "large", DeviceClassName: "l", AllocationMode: "ExactCount", Count: 1},
				{Name: "small", DeviceClassName: "s", AllocationMode: "ExactCount", Count: 2},
			}},
		},
		Constraints: []resourceapi.DeviceConstraint{
			{Requests: []string{"gpu", "all"}, MatchAttribute: ptr.To(resourceapi.FullyQualifiedName("d/root"))},
			{DistinctAttribute: ptr.To(resourceapi.FullyQualifiedName("d/board"))},
		},
		Config: []resourceapi.DeviceClaimConfiguration{{
			Requests: []string{"gpu"},
			DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
				Driver: "d", Parameters: runtime.RawExtension{Raw: []byte(`{"a":1}`)},
			}},
		}},
	}
	require.Empty(t, cmp.Diff(want, claim.Obj().Spec.Devices))
	require.Empty(t, cmp.Diff(want, claim.Template().Spec.Spec.Devices))
}

func TestPodsUseClaims(t *testing.T) {
	t.Parallel()
	edits := []func(*v1.Pod){OnLabeled("pool", "a"), Using(append(Uses("c", "d"), FromTemplate("t")...)...)}
	pod := AppPod("p", "app", edits...)
	require.Equal(t, "p", pod.Name)
	specs := map[string]v1.PodTemplateSpec{
		"pod":        {ObjectMeta: pod.ObjectMeta, Spec: pod.Spec},
		"deployment": Deployment("app", 2, edits...).Spec.Template,
		"job":        Job("app", 2, edits...).Spec.Template,
	}
	for kind, template := range specs {
		require.Equal(t, map[string]string{AppLabel: "app"}, template.Labels, kind)
		require.Equal(t, SchedulerName, template.Spec.SchedulerName, kind)
		require.Equal(t, map[string]string{"pool": "a"}, template.Spec.NodeSelector, kind)
		require.Equal(t, []v1.PodResourceClaim{
			{Name: "c", ResourceClaimName: ptr.To("c")},
			{Name: "d", ResourceClaimName: ptr.To("d")},
			{Name: "t", ResourceClaimTemplateName: ptr.To("t")},
		}, template.Spec.ResourceClaims, kind)
		require.Equal(t, []v1.ResourceClaim{{Name: "c"}, {Name: "d"}, {Name: "t"}}, template.Spec.Containers[0].Resources.Claims, kind)
	}
	require.Empty(t, specs["job"].Name, "the pods of a Job have names of their own")
	require.Equal(t, int32(2), *Deployment("app", 2).Spec.Replicas)
	require.Equal(t, int32(2), *Job("app", 2).Spec.Parallelism)
	require.Equal(t, v1.RestartPolicyNever, specs["job"].Spec.RestartPolicy, "a Job needs it")
}

func TestClasses(t *testing.T) {
	t.Parallel()
	class := DriverClass("gpu.example.com")
	require.Equal(t, "gpu.example.com", class.Name)
	require.Equal(t, `device.driver == "gpu.example.com"`, class.Spec.Selectors[0].CEL.Expression)
	class = WithConfig(class, "d", `{}`)
	require.Equal(t, "d", class.Spec.Config[0].Opaque.Driver)

	rule := TaintRule("r", "d", "p", "", "k", "NoExecute")
	require.Equal(t, &resourceapi.DeviceTaintSelector{Driver: ptr.To("d"), Pool: ptr.To("p")}, rule.Spec.DeviceSelector)
	require.Equal(t, resourceapi.DeviceTaint{Key: "k", Effect: "NoExecute"}, rule.Spec.Taint)
	require.Equal(t, "x", *TaintRule("r", "d", "p", "x", "k", "NoExecute").Spec.DeviceSelector.Device)
}

func TestSlices(t *testing.T) {
	t.Parallel()
	inRack := &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: "rack", Operator: v1.NodeSelectorOpIn, Values: []string{"a"}}},
	}}}
	yes, node := true, "n"
	pool := func(generation, slices int64) resourceapi.ResourcePool {
		return resourceapi.ResourcePool{Name: "n", Generation: generation, ResourceSliceCount: slices}
	}
	for name, tc := range map[string]struct {
		slice *SliceBuilder
		name  string
		want  resourceapi.ResourceSliceSpec
	}{
		"local":           {NodeSlice("n"), "n", resourceapi.ResourceSliceSpec{Driver: Driver, Pool: pool(1, 1), NodeName: &node}},
		"labelled nodes":  {Slice("n").OnLabeled("rack", "a"), "n", resourceapi.ResourceSliceSpec{Driver: Driver, Pool: pool(1, 1), NodeSelector: inRack}},
		"all nodes":       {Slice("n").OnAllNodes(), "n", resourceapi.ResourceSliceSpec{Driver: Driver, Pool: pool(1, 1), AllNodes: &yes}},
		"per device":      {Slice("n").PerDevice(), "n", resourceapi.ResourceSliceSpec{Driver: Driver, Pool: pool(1, 1), PerDeviceNodeSelection: &yes}},
		"part of a pool":  {NodeSlice("n").Part(1, 3), "n-1", resourceapi.ResourceSliceSpec{Driver: Driver, Pool: pool(1, 3), NodeName: &node}},
		"next generation": {NodeSlice("n").Generation(2), "n-g2", resourceapi.ResourceSliceSpec{Driver: Driver, Pool: pool(2, 1), NodeName: &node}},
		"reach of devices": {Slice("n").PerDevice().Devices(Device("a").OnNode("n"), Device("b").OnLabeled("rack", "a"), Device("c").OnAllNodes()), "n",
			resourceapi.ResourceSliceSpec{Driver: Driver, Pool: pool(1, 1), PerDeviceNodeSelection: &yes, Devices: []resourceapi.Device{
				{Name: "a", NodeName: &node}, {Name: "b", NodeSelector: inRack}, {Name: "c", AllNodes: &yes},
			}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slice := tc.slice.Obj()
			require.Equal(t, tc.name, slice.Name)
			require.Empty(t, cmp.Diff(tc.want, slice.Spec))
		})
	}
}
