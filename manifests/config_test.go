package manifests_test

import (
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"github.com/quartermaster-dra/quartermaster/manifests"
)

// loadConfig decodes the shipped configuration as kube-scheduler does with
// --config: strictly, with defaults filled in.
func loadConfig(t *testing.T, overlay string) *config.KubeSchedulerConfiguration {
	t.Helper()
	encoded, err := manifests.SchedulerConfig(overlay)
	require.NoError(t, err)
	decoded, _, err := scheme.Codecs.UniversalDecoder().Decode(encoded, nil, nil)
	require.NoError(t, err)
	loaded, ok := decoded.(*config.KubeSchedulerConfiguration)
	require.True(t, ok, "decoded a %T", decoded)
	return loaded
}

func TestSchedulerConfig(t *testing.T) {
	t.Parallel()
	want := map[string]struct{ schedulerName, lease string }{
		manifests.Secondary:      {schedulerName: "quartermaster", lease: "quartermaster"},
		manifests.ReplaceDefault: {schedulerName: "default-scheduler", lease: "kube-scheduler"},
	}
	forEachOverlay(t, func(t *testing.T, overlay string, _ []*unstructured.Unstructured) {
		loaded := loadConfig(t, overlay)
		require.NoError(t, validation.ValidateKubeSchedulerConfiguration(loaded))
		require.Len(t, loaded.Profiles, 1)
		require.Equal(t, want[overlay].schedulerName, loaded.Profiles[0].SchedulerName)
		require.True(t, loaded.LeaderElection.LeaderElect)
		require.Equal(t, manifests.Namespace, loaded.LeaderElection.ResourceNamespace)
		require.Equal(t, want[overlay].lease, loaded.LeaderElection.ResourceName)
	})
}

// The limit that upstream's benchmark harness gives a scheduler, which cannot be set
// there: published figures hold for what is shipped as long as the two are the same.
func TestClientLimitIsTheOneOfTheBenchmarks(t *testing.T) {
	t.Parallel()
	forEachOverlay(t, func(t *testing.T, overlay string, _ []*unstructured.Unstructured) {
		connection := loadConfig(t, overlay).ClientConnection
		require.EqualValues(t, 5000, connection.QPS)
		require.EqualValues(t, 5000, connection.Burst)
	})
}

// A lease that the Role does not name could never be renewed, and a Role that
// names a foreign one would let this scheduler take it.
func TestLeaseIsTheOneThatMayBeUpdated(t *testing.T) {
	t.Parallel()
	forEachOverlay(t, func(t *testing.T, overlay string, objects []*unstructured.Unstructured) {
		lease := loadConfig(t, overlay).LeaderElection.ResourceName
		role := find[rbacv1.Role](t, objects, "Role")
		want := []rbacv1.PolicyRule{
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{lease}, Verbs: []string{"get", "update"}},
			{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}},
		}
		require.Equal(t, want, role.Rules)
	})
}

func TestDeploymentReadsTheConfigMap(t *testing.T) {
	t.Parallel()
	forEachOverlay(t, func(t *testing.T, _ string, objects []*unstructured.Unstructured) {
		configMap := find[corev1.ConfigMap](t, objects, "ConfigMap")
		pod := find[appsv1.Deployment](t, objects, "Deployment").Spec.Template.Spec
		require.Len(t, pod.Volumes, 1)
		require.Equal(t, configMap.Name, pod.Volumes[0].ConfigMap.Name)
		require.Len(t, pod.Containers, 1)
		require.Len(t, pod.Containers[0].VolumeMounts, 1)
		mount := pod.Containers[0].VolumeMounts[0]
		require.Equal(t, pod.Volumes[0].Name, mount.Name)

		var file string
		for _, argument := range pod.Containers[0].Command {
			if value, found := strings.CutPrefix(argument, "--config="); found {
				file = value
			}
		}
		require.Equal(t, path.Join(mount.MountPath, manifests.ConfigKey), file)
		require.Contains(t, configMap.Data, manifests.ConfigKey)
	})
}
