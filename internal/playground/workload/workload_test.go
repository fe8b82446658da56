package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

func TestClaim(t *testing.T) {
	t.Parallel()
	claim := Claim("c",
		Request("gpu", Devices{Class: "g", Count: 2, Where: []string{"true"}, Tolerations: []resourceapi.DeviceToleration{Tolerate("k", "NoSchedule")}}),
		Request("all", Devices{Class: "g", All: true, Admin: true}),
		FirstAvailable("any", Alternative{"large", Devices{Class: "l", Count: 1}}, Alternative{"small", Devices{Class: "s", Count: 2}}),
		MatchAttribute("d/root", "gpu", "all"),
		DistinctAttribute("d/board"),
		Config("d", `{"a":1}`, "gpu"),
	)
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
	require.Empty(t, cmp.Diff(want, claim.Spec.Devices))
	require.Empty(t, cmp.Diff(claim.Spec, Template("t", func(c *resourceapi.DeviceClaim) { *c = claim.Spec.Devices }).Spec.Spec))
}

func TestPodsUseClaims(t *testing.T) {
	t.Parallel()
	options := PodOptions{
		NodeSelector: map[string]string{"pool": "a"},
		Uses:         []Use{{As: "named", Claim: "c"}, {As: "made", Template: "t"}},
	}
	pod := Pod("p", "app", options)
	require.Equal(t, "p", pod.Name)
	specs := map[string]corev1.PodTemplateSpec{
		"pod":        {ObjectMeta: pod.ObjectMeta, Spec: pod.Spec},
		"deployment": Deployment("app", 2, options).Spec.Template,
		"job":        Job("app", 2, options).Spec.Template,
	}
	for kind, template := range specs {
		require.Equal(t, map[string]string{AppLabel: "app"}, template.Labels, kind)
		require.Equal(t, SchedulerName, template.Spec.SchedulerName, kind)
		require.Equal(t, options.NodeSelector, template.Spec.NodeSelector, kind)
		require.Equal(t, []corev1.PodResourceClaim{
			{Name: "named", ResourceClaimName: ptr.To("c")},
			{Name: "made", ResourceClaimTemplateName: ptr.To("t")},
		}, template.Spec.ResourceClaims, kind)
		require.Equal(t, []corev1.ResourceClaim{{Name: "named"}, {Name: "made"}}, template.Spec.Containers[0].Resources.Claims, kind)
	}
	require.Equal(t, int32(2), *Deployment("app", 2, options).Spec.Replicas)
	require.Equal(t, int32(2), *Job("app", 2, options).Spec.Parallelism)
	require.Equal(t, corev1.RestartPolicyNever, specs["job"].Spec.RestartPolicy, "a Job needs it")
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
