package manifests_test

import (
	"slices"
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

// alone are the ways of installing the guard with pods of its own.
var alone = []string{manifests.Guard, manifests.GuardCertManager, manifests.GuardRestricted}

// forEachGuard runs a test on the rendered objects of all ways of installing the guard.
func forEachGuard(t *testing.T, test func(t *testing.T, objects []*unstructured.Unstructured)) {
	t.Helper()
	forEachOf(t, append(slices.Clone(alone), manifests.GuardInScheduler), test)
}

func forEachOf(t *testing.T, overlays []string, test func(t *testing.T, objects []*unstructured.Unstructured)) {
	t.Helper()
	for _, overlay := range overlays {
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

// The finalizer of a claim in use is kept in all versions of the API, whichever guard there is.
func TestGuardKeepsFinalizers(t *testing.T) {
	t.Parallel()
	forEachGuard(t, func(t *testing.T, objects []*unstructured.Unstructured) {
		policy := find[admissionregistrationv1.ValidatingAdmissionPolicy](t, objects, "ValidatingAdmissionPolicy")
		binding := find[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, objects, "ValidatingAdmissionPolicyBinding")
		require.Equal(t, policy.Name, binding.Spec.PolicyName)
		require.Equal(t, []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}, binding.Spec.ValidationActions)
		require.Nil(t, binding.Spec.MatchResources)
		require.Equal(t, admissionregistrationv1.Fail, *policy.Spec.FailurePolicy)
		match := policy.Spec.MatchConstraints
		require.Equal(t, admissionregistrationv1.Equivalent, *match.MatchPolicy)
		require.Len(t, match.ResourceRules, 1)
		rule := match.ResourceRules[0]
		require.Equal(t, []string{"resourceclaims.resource.k8s.io/*"}, []string{rule.Resources[0] + "." + rule.APIGroups[0] + "/" + rule.APIVersions[0]})
		require.Equal(t, []admissionregistrationv1.OperationType{admissionregistrationv1.Update}, rule.Operations)
	})
}

func TestGuardPod(t *testing.T) {
	t.Parallel()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	require.NoError(t, err)
	restricted := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	forEachOf(t, alone, func(t *testing.T, objects []*unstructured.Unstructured) {
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
		require.EqualValues(t, *deployment.Spec.Replicas, deployment.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue(),
			"only one is ever ready, so a rollout that keeps one of the old ones ready never ends")
		require.Contains(t, container.Command, "--mode=Warn", "nothing is denied in a cluster where nobody has looked at what would be")
		require.Equal(t, "/readyz", container.ReadinessProbe.HTTPGet.Path)
	})
}

// Whoever is let in reaches the ports that there are, and no others.
func TestGuardsNetworkPolicy(t *testing.T) {
	t.Parallel()
	forEachGuard(t, func(t *testing.T, objects []*unstructured.Unstructured) {
		deployment, policy := find[appsv1.Deployment](t, objects, "Deployment"), find[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy")
		require.Equal(t, deployment.Namespace, policy.Namespace)
		require.Equal(t, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, policy.Spec.PolicyTypes)
		require.NotEmpty(t, policy.Spec.PodSelector.MatchLabels)
		for key, value := range policy.Spec.PodSelector.MatchLabels {
			require.Equal(t, value, deployment.Spec.Template.Labels[key])
		}
		var have, let []string
		for _, port := range deployment.Spec.Template.Spec.Containers[0].Ports {
			have = append(have, string(port.Protocol)+" "+port.Name)
		}
		require.Len(t, policy.Spec.Ingress, 1)
		for _, port := range policy.Spec.Ingress[0].Ports {
			let = append(let, string(*port.Protocol)+" "+port.Port.StrVal)
		}
		require.ElementsMatch(t, have, let)
	})
}

func TestRestrictedGuard(t *testing.T) {
	t.Parallel()
	objects, err := manifests.Render(manifests.GuardRestricted)
	require.NoError(t, err)
	policy, template := find[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy"), find[appsv1.Deployment](t, objects, "Deployment").Spec.Template
	require.Equal(t, []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "192.0.2.1/32"}}}, policy.Spec.Ingress[0].From)
	container := template.Spec.Containers[0]
	require.Contains(t, container.Command, "--client-ca-file="+container.VolumeMounts[0].MountPath+"/ca.crt")
	require.Equal(t, container.VolumeMounts[0].Name, template.Spec.Volumes[0].Name)
	require.Equal(t, "quartermaster-guard-client-ca", template.Spec.Volumes[0].ConfigMap.Name)
}

// A stolen account of the guard can hide no device and free none: it writes to no status.
func TestGuardsRights(t *testing.T) {
	t.Parallel()
	forEachGuard(t, func(t *testing.T, objects []*unstructured.Unstructured) {
		// cert-manager writes the certificate, its authority and the bundle.
		certManager := slices.ContainsFunc(objects, func(object *unstructured.Unstructured) bool { return object.GetKind() == "Certificate" })
		roles := 0
		for _, object := range objects {
			if kind := object.GetKind(); kind != "ClusterRole" && kind != "Role" || object.GetName() != "quartermaster-guard" {
				continue
			}
			roles++
			role := find[rbacv1.ClusterRole](t, []*unstructured.Unstructured{object}, object.GetKind())
			want := []string{
				"get resourceclaims.resource.k8s.io", "list resourceclaims.resource.k8s.io", "watch resourceclaims.resource.k8s.io",
				"patch resourceclaims.resource.k8s.io", "update resourceclaims.resource.k8s.io",
				"list resourceslices.resource.k8s.io", "watch resourceslices.resource.k8s.io",
				"get validatingwebhookconfigurations.admissionregistration.k8s.io quartermaster-guard",
			}
			own := []string{"update validatingwebhookconfigurations.admissionregistration.k8s.io quartermaster-guard"}
			if object.GetKind() == "Role" {
				require.Equal(t, "quartermaster-guard", object.GetNamespace())
				want = []string{"create leases.coordination.k8s.io", "get leases.coordination.k8s.io quartermaster-guard", "update leases.coordination.k8s.io quartermaster-guard"}
				own = []string{"create secrets", "get secrets quartermaster-guard-ca", "update secrets quartermaster-guard-ca"}
			}
			if !certManager {
				want = append(want, own...)
			}
			_, all := validation.Covers(nil, role.Rules)
			require.ElementsMatch(t, want, permissions(all))
		}
		require.Equal(t, 2, roles)
	})
}

// The scheduler's pod is what the Service leads to, and what API servers find there.
func TestGuardInSchedulersPod(t *testing.T) {
	t.Parallel()
	objects, err := manifests.Render(manifests.GuardInScheduler)
	require.NoError(t, err)
	service, deployment := find[corev1.Service](t, objects, "Service"), find[appsv1.Deployment](t, objects, "Deployment")
	require.Equal(t, deployment.Namespace, service.Namespace)
	template := deployment.Spec.Template
	for key, value := range service.Spec.Selector {
		require.Equal(t, value, template.Labels[key])
	}
	container := template.Spec.Containers[0]
	ports := map[string]int32{}
	for _, port := range container.Ports {
		ports[port.Name] = port.ContainerPort
	}
	require.Equal(t, map[string]int32{"https": 10259, "guard": 9443}, ports)
	require.Equal(t, "guard", service.Spec.Ports[0].TargetPort.StrVal)
	require.Equal(t, "guard", container.ReadinessProbe.HTTPGet.Port.StrVal, "of several replicas, only the one that decides can be asked")
	require.Equal(t, "/readyz", container.ReadinessProbe.HTTPGet.Path)
	require.Equal(t, corev1.URISchemeHTTPS, container.ReadinessProbe.HTTPGet.Scheme)
	require.Equal(t, "https", container.LivenessProbe.HTTPGet.Port.StrVal)
	require.EqualValues(t, 1, deployment.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue(), "a new pod is not ready before the old one is gone")
	require.Equal(t, []string{"/scheduler", "--config=/etc/quartermaster/scheduler-config.yaml", "--guard", "--guard-mode=Warn",
		"--guard-service=" + service.Namespace + "/" + service.Name}, container.Command)
}

// Who may make a Secret in kube-system may make any there.
func TestGuardInSchedulersAccount(t *testing.T) {
	t.Parallel()
	objects, err := manifests.Render(manifests.GuardInScheduler)
	require.NoError(t, err)
	for _, object := range objects {
		switch kind := object.GetKind(); kind {
		case "ServiceAccount":
			require.Equal(t, manifests.Name, object.GetName())
		case "RoleBinding", "ClusterRoleBinding":
			binding := find[rbacv1.ClusterRoleBinding](t, []*unstructured.Unstructured{object}, kind)
			require.Equal(t, []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: manifests.Name, Namespace: manifests.Namespace}}, binding.Subjects, binding.Name)
		case "Role":
			role := find[rbacv1.Role](t, []*unstructured.Unstructured{object}, kind)
			_, all := validation.Covers(nil, role.Rules)
			if role.Namespace == manifests.Namespace {
				require.NotContains(t, permissions(all), "create secrets", role.Name)
			}
		}
	}
}
