package manifests_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/quartermaster-dra/quartermaster/manifests"
)

func TestPodMeetsTheRestrictedStandard(t *testing.T) {
	t.Parallel()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	require.NoError(t, err)
	restricted := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	forEachOverlay(t, func(t *testing.T, _ string, objects []*unstructured.Unstructured) {
		template := find[appsv1.Deployment](t, objects, "Deployment").Spec.Template
		for _, result := range evaluator.EvaluatePod(restricted, &template.ObjectMeta, &template.Spec) {
			require.True(t, result.Allowed, "%s: %s", result.ForbiddenReason, result.ForbiddenDetail)
		}
		require.True(t, *template.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem)
		require.Equal(t, manifests.Name, template.Spec.ServiceAccountName)
		require.Equal(t, "system-cluster-critical", template.Spec.PriorityClassName)
		require.Empty(t, template.Spec.SchedulerName, "the default scheduler places it")
	})
}

func TestProbesUseTheSecurePort(t *testing.T) {
	t.Parallel()
	defaultPort := options.NewOptions().SecureServing.BindPort
	forEachOverlay(t, func(t *testing.T, _ string, objects []*unstructured.Unstructured) {
		container := find[appsv1.Deployment](t, objects, "Deployment").Spec.Template.Spec.Containers[0]
		require.Len(t, container.Ports, 1)
		require.EqualValues(t, defaultPort, container.Ports[0].ContainerPort)
		for path, probes := range map[string][]*corev1.Probe{
			"/livez":  {container.StartupProbe, container.LivenessProbe},
			"/readyz": {container.ReadinessProbe},
		} {
			for _, probe := range probes {
				require.NotNil(t, probe)
				require.Equal(t, path, probe.HTTPGet.Path)
				require.Equal(t, container.Ports[0].Name, probe.HTTPGet.Port.StrVal)
				require.Equal(t, corev1.URISchemeHTTPS, probe.HTTPGet.Scheme)
			}
		}
	})
}

func TestReplicas(t *testing.T) {
	t.Parallel()
	want := map[string]int32{
		manifests.Secondary: 1,
		// One places the other when that is lost.
		manifests.ReplaceDefault: 2,
	}
	forEachOverlay(t, func(t *testing.T, overlay string, objects []*unstructured.Unstructured) {
		deployment := find[appsv1.Deployment](t, objects, "Deployment")
		require.Equal(t, want[overlay], *deployment.Spec.Replicas)
		require.Equal(t, deployment.Spec.Selector.MatchLabels, deployment.Spec.Template.Labels)
	})
}

func TestDisruptionBudgetKeepsOneReplica(t *testing.T) {
	t.Parallel()
	objects, err := manifests.Render(manifests.ReplaceDefault)
	require.NoError(t, err)
	deployment := find[appsv1.Deployment](t, objects, "Deployment")
	budget := find[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget")
	require.Equal(t, deployment.Spec.Selector, budget.Spec.Selector)
	require.Equal(t, 1, budget.Spec.MinAvailable.IntValue())
}
