package manifests_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/component-helpers/auth/rbac/validation"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/guard/registration"
	"github.com/quartermaster-dra/quartermaster/manifests"
)

// forEachGuard runs a test on the rendered objects of both ways of installing the guard.
func forEachGuard(t *testing.T, test func(t *testing.T, objects []*unstructured.Unstructured)) {
	t.Helper()
	for _, overlay := range []string{manifests.Guard, manifests.GuardCertManager} {
		t.Run(overlay, func(t *testing.T) {
			objects, err := manifests.Render(overlay)
			require.NoError(t, err)
			test(t, objects)
		})
	}
}

// Schedulers believe in a guard only if the configuration is the one that the code knows.
func TestGuardIsRegisteredAsTheCodeSays(t *testing.T) {
	t.Parallel()
	forEachGuard(t, func(t *testing.T, objects []*unstructured.Unstructured) {
		config := find[admissionregistrationv1.ValidatingWebhookConfiguration](t, objects, "ValidatingWebhookConfiguration")
		service := find[corev1.Service](t, objects, "Service")
		want := registration.New(admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
			Namespace: service.Namespace, Name: service.Name, Port: ptr.To(service.Spec.Ports[0].Port),
		}}, "quartermaster-guard/quartermaster-guard", admissionregistrationv1.Ignore)
		require.Equal(t, want.Webhooks, config.Webhooks)
		require.Equal(t, want.Annotations[registration.LeaseAnnotation], config.Annotations[registration.LeaseAnnotation])
		require.Equal(t, registration.Name, config.Name)
	})
}

func TestGuardPod(t *testing.T) {
	t.Parallel()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	require.NoError(t, err)
	restricted := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	forEachGuard(t, func(t *testing.T, objects []*unstructured.Unstructured) {
		deployment := find[appsv1.Deployment](t, objects, "Deployment")
		template := deployment.Spec.Template
		for _, result := range evaluator.EvaluatePod(restricted, &template.ObjectMeta, &template.Spec) {
			require.True(t, result.Allowed, "%s: %s", result.ForbiddenReason, result.ForbiddenDetail)
		}
		service, policy := find[corev1.Service](t, objects, "Service"), find[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy")
		for key, value := range service.Spec.Selector {
			require.Equal(t, value, template.Labels[key])
		}
		require.Equal(t, template.Labels, policy.Spec.PodSelector.MatchLabels)
		require.Equal(t, deployment.Spec.Selector.MatchLabels, template.Labels)
		container := template.Spec.Containers[0]
		require.Equal(t, service.Spec.Ports[0].TargetPort.StrVal, container.Ports[0].Name)
		require.Contains(t, container.Command, "--mode=Warn", "nothing is denied in a cluster where nobody has looked at what would be")
		require.Equal(t, "/readyz", container.ReadinessProbe.HTTPGet.Path)
	})
}

// A stolen account of the guard can hide no device and free none: it writes to no status.
func TestGuardsRights(t *testing.T) {
	t.Parallel()
	forEachGuard(t, func(t *testing.T, objects []*unstructured.Unstructured) {
		roles := 0
		for _, object := range objects {
			if kind := object.GetKind(); kind != "ClusterRole" && kind != "Role" || object.GetName() != "quartermaster-guard" {
				continue
			}
			roles++
			role := find[rbacv1.ClusterRole](t, []*unstructured.Unstructured{object}, object.GetKind())
			want := []string{
				"get resourceclaims.resource.k8s.io", "list resourceclaims.resource.k8s.io", "watch resourceclaims.resource.k8s.io", "update resourceclaims.resource.k8s.io",
				"list resourceslices.resource.k8s.io", "watch resourceslices.resource.k8s.io",
				"get validatingwebhookconfigurations.admissionregistration.k8s.io quartermaster-guard", "update validatingwebhookconfigurations.admissionregistration.k8s.io quartermaster-guard",
			}
			if object.GetKind() == "Role" {
				require.Equal(t, "quartermaster-guard", object.GetNamespace())
				want = []string{
					"create leases.coordination.k8s.io", "get leases.coordination.k8s.io quartermaster-guard", "update leases.coordination.k8s.io quartermaster-guard",
					"create secrets", "get secrets quartermaster-guard-ca", "update secrets quartermaster-guard-ca",
				}
			}
			_, all := validation.Covers(nil, role.Rules)
			require.ElementsMatch(t, want, permissions(all))
		}
		require.Equal(t, 2, roles)
	})
}
