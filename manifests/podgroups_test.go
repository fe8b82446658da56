package manifests_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/auth/rbac/validation"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/quartermaster-dra/quartermaster/manifests"
)

func podGroupDefinition(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	objects, err := manifests.Render(manifests.PodGroups)
	require.NoError(t, err)
	return find[apiextensionsv1.CustomResourceDefinition](t, objects, "CustomResourceDefinition")
}

func podGroupSchema(t *testing.T) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	versions := podGroupDefinition(t).Spec.Versions
	require.Len(t, versions, 1)
	return versions[0].Schema.OpenAPIV3Schema
}

// Everything but the descriptions and the way that a quantity is spelled is as scheduler-plugins publishes it.
func TestPodGroupsAreThoseOfSchedulerPlugins(t *testing.T) {
	t.Parallel()
	folder, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/scheduler-plugins").Output()
	require.NoError(t, err, "where the module is that go.mod requires")
	published, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(folder)), "config", "crd", "bases", "scheduling.x-k8s.io_podgroups.yaml"))
	require.NoError(t, err)
	want := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, yaml.UnmarshalStrict(published, want))

	got := podGroupDefinition(t)
	const approved = apiextensionsv1.KubeAPIApprovedAnnotation
	require.Equal(t, map[string]string{approved: want.Annotations[approved]}, got.Annotations)
	require.Equal(t, want.Name, got.Name)
	undescribed := cmp.FilterPath(func(path cmp.Path) bool {
		return path.Last().String() == ".Description" || path.Last().String() == ".Pattern"
	}, cmp.Ignore())
	require.Empty(t, cmp.Diff(want.Spec, got.Spec, undescribed))
}

// Each field of the Go type has a property of its kind, and there is no other.
func TestPodGroupSchemaHasTheFieldsOfTheType(t *testing.T) {
	t.Parallel()
	schema := podGroupSchema(t)
	for name, of := range map[string]reflect.Type{"spec": reflect.TypeFor[v1alpha1.PodGroupSpec](), "status": reflect.TypeFor[v1alpha1.PodGroupStatus]()} {
		properties := schema.Properties[name].Properties
		require.Len(t, properties, of.NumField(), name)
		for i := range of.NumField() {
			field := of.Field(i)
			property, found := properties[strings.Split(field.Tag.Get("json"), ",")[0]]
			require.True(t, found, "%s.%s", name, field.Name)
			require.NotEmpty(t, property.Description, "%s.%s", name, field.Name)
			require.Equal(t, jsonType(field.Type), property.Type+property.Format, "%s.%s", name, field.Name)
		}
	}
}

// jsonType returns the type and the format that a field has in a schema.
func jsonType(of reflect.Type) string {
	switch of.Kind() {
	case reflect.Pointer:
		return jsonType(of.Elem())
	case reflect.Int32:
		return "integerint32"
	case reflect.String:
		return "string"
	case reflect.Map:
		return "object"
	default: // metav1.Time
		return "stringdate-time"
	}
}

// What the pattern accepts can be decoded: a PodGroup that is stored can be read.
func TestQuantitiesOfPodGroups(t *testing.T) {
	t.Parallel()
	pattern := regexp.MustCompile(podGroupSchema(t).Properties["spec"].Properties["minResources"].AdditionalProperties.Schema.Pattern)
	for quantity, want := range map[string]bool{
		"0": true, "12": true, "+1": true, "-1": true, "1.5": true, "1.": true, ".5": true, "500m": true, "3n": true, "3u": true, "2k": true, "2M": true, "1.5G": true,
		"1Ki": true, "1.5Gi": true, "2Ei": true, "1E": true, "1e3": true, "1E3": true, "1e+3": true, "1E-3": true,
		"": false, ".": false, "a lot": false, "1 Gi": false, "1gi": false, "1K": false, "1i": false, "--1": false, "1.2.3": false, "Gi": false, "1e": false, "1mi": false, "\n1": false,
	} {
		require.Equal(t, want, pattern.MatchString(quantity), "%q", quantity)
		if _, err := resource.ParseQuantity(quantity); want {
			require.NoError(t, err, "%q", quantity)
		}
	}
}

func TestRightsForPodGroups(t *testing.T) {
	t.Parallel()
	objects, err := manifests.Render(manifests.PodGroups)
	require.NoError(t, err)
	require.Len(t, objects, 3)
	role := find[rbacv1.ClusterRole](t, objects, "ClusterRole")
	_, beyond := validation.Covers(nil, role.Rules)
	require.ElementsMatch(t, []string{
		"list podgroups.scheduling.x-k8s.io", "watch podgroups.scheduling.x-k8s.io", "patch podgroups/status.scheduling.x-k8s.io",
	}, permissions(beyond))
	binding := find[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding")
	require.Equal(t, role.Name, binding.RoleRef.Name)
	require.Equal(t, []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: manifests.Name, Namespace: manifests.Namespace}}, binding.Subjects)
}
