package manifests_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/quartermaster-dra/quartermaster/manifests"
)

// monitoring returns the rendered objects, and those of a kind that are not Kubernetes' own.
func monitoring(t *testing.T) (objects []*unstructured.Unstructured, custom map[string]map[string]any) {
	t.Helper()
	objects, err := manifests.Render(manifests.Monitoring)
	require.NoError(t, err)
	custom = make(map[string]map[string]any)
	for _, object := range objects {
		if object.GetAPIVersion() == "monitoring.coreos.com/v1" {
			require.Equal(t, manifests.Namespace, object.GetNamespace())
			custom[object.GetKind()] = object.Object["spec"].(map[string]any)
		}
	}
	require.Len(t, custom, 2)
	return objects, custom
}

// The PodMonitor finds the pods of the Deployment, the port that serves metrics, and a token that may read them and no more.
func TestPodMonitorFindsTheScheduler(t *testing.T) {
	t.Parallel()
	objects, custom := monitoring(t)
	var spec struct {
		Selector            struct{ MatchLabels map[string]string }
		PodMetricsEndpoints []struct {
			Port, Path, Scheme string
			Authorization      struct{ Credentials struct{ Name, Key string } }
		}
	}
	encoded, err := json.Marshal(custom["PodMonitor"])
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(encoded, &spec))
	require.Len(t, spec.PodMetricsEndpoints, 1)
	endpoint := spec.PodMetricsEndpoints[0]
	forEachOverlay(t, func(t *testing.T, _ string, objects []*unstructured.Unstructured) {
		deployment := find[appsv1.Deployment](t, objects, "Deployment")
		require.Equal(t, manifests.Namespace, deployment.Namespace)
		require.Equal(t, deployment.Spec.Template.Labels, spec.Selector.MatchLabels)
		require.Equal(t, deployment.Spec.Template.Spec.Containers[0].Ports[0].Name, endpoint.Port)
	})
	require.Equal(t, "https", endpoint.Scheme)
	require.Equal(t, "/metrics", endpoint.Path)

	token, account := find[v1.Secret](t, objects, "Secret"), find[v1.ServiceAccount](t, objects, "ServiceAccount")
	require.Equal(t, token.Name, endpoint.Authorization.Credentials.Name)
	require.Equal(t, v1.ServiceAccountTokenKey, endpoint.Authorization.Credentials.Key)
	require.Equal(t, v1.SecretTypeServiceAccountToken, token.Type)
	require.Equal(t, account.Name, token.Annotations[v1.ServiceAccountNameKey])
	require.Equal(t, account.Namespace, token.Namespace)
	role, binding := find[rbacv1.ClusterRole](t, objects, "ClusterRole"), find[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding")
	require.Equal(t, []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}, role.Rules)
	require.Equal(t, role.Name, binding.RoleRef.Name)
	require.Equal(t, []rbacv1.Subject{{Kind: "ServiceAccount", Name: account.Name, Namespace: account.Namespace}}, binding.Subjects)
}

// Grafana's sidecar gets the dashboard; test/monitoring has the tests of what is in it.
func TestDashboardIsInAConfigMap(t *testing.T) {
	t.Parallel()
	objects, _ := monitoring(t)
	config := find[v1.ConfigMap](t, objects, "ConfigMap")
	require.Equal(t, "1", config.Labels["grafana_dashboard"])
	require.Equal(t, "quartermaster-dashboard", config.Name)
	require.True(t, json.Valid([]byte(config.Data["quartermaster.json"])))
}
