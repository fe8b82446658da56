package compat

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha2"
	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha3"
)

// kinds are the types with which objects of each version are read.
var kinds = map[api.Version]map[string]any{
	api.V1alpha2: {
		"ResourceClaim": v1alpha2.ResourceClaim{}, "ResourceClaimTemplate": v1alpha2.ResourceClaimTemplate{},
		"ResourceClass": v1alpha2.ResourceClass{}, "ResourceSlice": v1alpha2.ResourceSlice{},
		"ResourceClassParameters": v1alpha2.ResourceClassParameters{}, "ResourceClaimParameters": v1alpha2.ResourceClaimParameters{},
		"PodSchedulingContext": api.PodSchedulingContext{},
	},
	api.V1alpha3: {
		"ResourceClaim": v1alpha3.ResourceClaim{}, "ResourceClaimTemplate": v1alpha3.ResourceClaimTemplate{},
		"DeviceClass": v1alpha3.DeviceClass{}, "ResourceSlice": v1alpha3.ResourceSlice{},
		"PodSchedulingContext": api.PodSchedulingContext{},
	},
	api.V1beta1: {
		"ResourceClaim": resourcev1beta1.ResourceClaim{}, "ResourceClaimTemplate": resourcev1beta1.ResourceClaimTemplate{},
		"DeviceClass": resourcev1beta1.DeviceClass{}, "ResourceSlice": resourcev1beta1.ResourceSlice{},
	},
	api.V1beta2: {
		"ResourceClaim": resourcev1beta2.ResourceClaim{}, "ResourceClaimTemplate": resourcev1beta2.ResourceClaimTemplate{},
		"DeviceClass": resourcev1beta2.DeviceClass{}, "ResourceSlice": resourcev1beta2.ResourceSlice{},
	},
	api.V1: {
		"ResourceClaim": resourceapi.ResourceClaim{}, "ResourceClaimTemplate": resourceapi.ResourceClaimTemplate{},
		"DeviceClass": resourceapi.DeviceClass{}, "ResourceSlice": resourceapi.ResourceSlice{},
	},
}

// replacedInAlpha are fields of alpha features, by the minor release, that a later release has replaced by
// others. Nobody can read them with its types; docs/api-versions.md says so.
var replacedInAlpha = map[uint]string{
	36: "spec.devices.nodeAllocatableResourceMappings",
}

// Every field that this server describes (OpenAPI) is one of the type with which it is
// read. Of others, conversion and its tests could not know that they are lost.
func TestFieldsOfTheServer(t *testing.T) {
	t.Parallel()
	schemas := serverSchemas(t)
	for kind, of := range kinds[tested.claims] {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			name := "io.k8s.api.resource." + string(tested.claims) + "." + kind
			if kind == "ResourceSlice" || strings.HasSuffix(kind, "Parameters") {
				if _, found := schemas[name]; !found && tested.onlyClassic {
					t.Skip("1.29 does not have it yet")
				}
			}
			fields := schemas.fields(t, name)
			require.Contains(t, fields, "metadata")
			require.Greater(t, len(fields), 4)
			known := typeFields(reflect.TypeOf(of))
			for _, field := range fields {
				if replaced, found := replacedInAlpha[minor]; !found || !strings.HasPrefix(field, replaced) {
					require.Contains(t, known, field, "field of %s", kind)
				}
			}
		})
	}
}

// openAPISchema is the part of an OpenAPI schema that matters here.
type openAPISchema struct {
	Properties           map[string]openAPISchema `json:"properties"`
	Ref                  string                   `json:"$ref"`
	AllOf                []openAPISchema          `json:"allOf"`
	Items                *openAPISchema           `json:"items"`
	AdditionalProperties *openAPISchema           `json:"additionalProperties"`
}

// openAPISchemas are those of a group version, by name.
type openAPISchemas map[string]openAPISchema

func serverSchemas(t *testing.T) openAPISchemas {
	t.Helper()
	raw, err := cluster.Client.Discovery().RESTClient().Get().AbsPath("/openapi/v3/apis/resource.k8s.io/"+string(tested.claims)).
		SetHeader("Accept", "application/json").Do(t.Context()).Raw()
	require.NoError(t, err)
	var document struct {
		Components struct {
			Schemas openAPISchemas `json:"schemas"`
		} `json:"components"`
	}
	require.NoError(t, json.Unmarshal(raw, &document))
	return document.Components.Schemas
}

// fields returns the paths of all fields below a schema of the API group, "spec.devices"
// for instance. Types of other groups are not looked into.
func (s openAPISchemas) fields(t *testing.T, name string) []string {
	t.Helper()
	require.Contains(t, s, name)
	var paths []string
	var walk func(path string, of openAPISchema)
	walk = func(path string, of openAPISchema) {
		for _, part := range of.AllOf {
			walk(path, part)
		}
		if of.Items != nil {
			walk(path, *of.Items)
		}
		if of.AdditionalProperties != nil {
			walk(path, *of.AdditionalProperties)
		}
		if _, to, found := strings.Cut(of.Ref, "#/components/schemas/"); found && strings.HasPrefix(to, "io.k8s.api.resource.") {
			walk(path, s[to])
		}
		for field, inner := range of.Properties {
			inside := strings.TrimPrefix(path+"."+field, ".")
			paths = append(paths, inside)
			walk(inside, inner)
		}
	}
	walk("", s[name])
	slices.Sort(paths)
	return slices.Compact(paths)
}

// typeFields returns the paths of all fields that the JSON of a type may have.
func typeFields(of reflect.Type) []string {
	var paths []string
	var walk func(path string, of reflect.Type)
	walk = func(path string, of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(path, of.Elem())
		case reflect.Struct:
			for i := range of.NumField() {
				field := of.Field(i)
				name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				if field.Anonymous && name == "" {
					walk(path, field.Type)
				} else if name != "" && name != "-" {
					inside := strings.TrimPrefix(path+"."+name, ".")
					paths = append(paths, inside)
					walk(inside, field.Type)
				}
			}
		}
	}
	walk("", of)
	return paths
}
