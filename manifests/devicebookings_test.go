package manifests_test

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
	"sigs.k8s.io/yaml"

	"github.com/quartermaster-dra/quartermaster/internal/hold/booking"
	"github.com/quartermaster-dra/quartermaster/manifests"
)

// leftOut are the fields of a claim's spec that a booking has no use for.
var leftOut = []string{"config", "adminAccess", "derivedAttributes"}

// TestBookingSchemaHasTheFieldsOfTheType: each field of the Go type has a property, and there is no other.
func TestBookingSchemaHasTheFieldsOfTheType(t *testing.T) {
	t.Parallel()
	objects, err := manifests.Render(manifests.DeviceBookings)
	require.NoError(t, err)
	definition := find[apiextensionsv1.CustomResourceDefinition](t, objects, "CustomResourceDefinition")
	require.Equal(t, booking.Version.Group, definition.Spec.Group)
	require.Equal(t, booking.Kind, definition.Spec.Names.Kind)
	schema := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
	for name, of := range map[string]reflect.Type{"spec": reflect.TypeFor[booking.Spec](), "status": reflect.TypeFor[booking.Status]()} {
		sameFields(t, name, of, schema.Properties[name])
	}
	spec := schema.Properties["spec"]
	require.EqualValues(t, booking.MostCopies, *spec.Properties["count"].Maximum)
	labels, expressions := spec.Properties["podSelector"].Properties["matchLabels"], spec.Properties["podSelector"].Properties["matchExpressions"]
	require.EqualValues(t, booking.MostLabels, *labels.MaxProperties)
	require.EqualValues(t, booking.MostLabels, *expressions.MaxItems)
	require.EqualValues(t, booking.MostValues, *expressions.Items.Schema.Properties["values"].MaxItems)
}

// sameFields compares a type with a schema, also in depth.
func sameFields(t *testing.T, path string, of reflect.Type, schema apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		if of.Kind() == reflect.Slice {
			require.NotNil(t, schema.Items, path)
			schema = *schema.Items.Schema
		}
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || schema.Type != "object" || len(schema.Properties) == 0 {
		return
	}
	var fields []string
	for field := range of.Fields() {
		name := strings.Split(field.Tag.Get("json"), ",")[0]
		if strings.HasPrefix(of.PkgPath(), "k8s.io/api/resource/") && slices.Contains(leftOut, name) {
			continue
		}
		fields = append(fields, name)
		require.NotEmpty(t, schema.Properties[name].Description, path+"."+name)
		sameFields(t, path+"."+name, field.Type, schema.Properties[name])
	}
	require.ElementsMatch(t, fields, slices.Collect(maps.Keys(schema.Properties)), path)
}

// TestRightsForBookings: the scheduler reads bookings, priority classes and quotas, and writes the status; nobody is bound to the ClusterRole for
// editors.
func TestRightsForBookings(t *testing.T) {
	t.Parallel()
	objects, err := manifests.Render(manifests.DeviceBookings)
	require.NoError(t, err)
	require.Len(t, objects, 4)
	text, err := os.ReadFile(filepath.Join("device-bookings", "clusterrole.yaml"))
	require.NoError(t, err)
	role := &rbacv1.ClusterRole{}
	require.NoError(t, yaml.UnmarshalStrict(text, role))
	_, beyond := validation.Covers(nil, role.Rules)
	require.ElementsMatch(t, []string{
		"list devicebookings.quartermaster-dra.github.io", "watch devicebookings.quartermaster-dra.github.io",
		"update devicebookings/status.quartermaster-dra.github.io", "list priorityclasses.scheduling.k8s.io", "watch priorityclasses.scheduling.k8s.io",
		"list resourcequotas", "watch resourcequotas",
	}, permissions(beyond))
	binding := find[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding")
	require.Equal(t, role.Name, binding.RoleRef.Name)
	require.Equal(t, []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: manifests.Name, Namespace: manifests.Namespace}}, binding.Subjects)
}
