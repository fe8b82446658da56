package api

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// readGolden reads an object. A field that the type does not have is an error.
func readGolden[T any](t *testing.T, path string) *T {
	t.Helper()
	object := new(T)
	decoder := json.NewDecoder(bytes.NewReader(goldenText(t, path)))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(object), path)
	return object
}

// goldenText is a golden file as a server sends it, which is without spaces: they would
// be in parameters, whose text is kept.
func goldenText(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", path))
	require.NoError(t, err)
	var sent bytes.Buffer
	require.NoError(t, json.Compact(&sent, raw), path)
	return sent.Bytes()
}

// requireEqual compares objects of the API, apiVersion and kind aside.
func requireEqual[T any](t *testing.T, want, got *T, what string) {
	t.Helper()
	require.Empty(t, cmp.Diff(want, got, cmpopts.IgnoreTypes(metav1.TypeMeta{}), cmp.AllowUnexported(resource.Quantity{}, metav1.FieldsV1{})),
		"%s: expected (-), found (+)", what)
}

// golden checks that NAME.json, as a server sends it, becomes NAME.hub.json and the other
// way round.
func golden[T, O any](t *testing.T, name string) { goldenPair[T, O](t, name+".json", name+".hub.json") }

// goldenPair checks that an object of an older version and one of the hub become each
// other, and that neither is changed by that.
func goldenPair[T, O any](t *testing.T, oldPath, hubPath string) {
	t.Run(oldPath, func(t *testing.T) {
		t.Parallel()
		goldenToHub[T, O](t, oldPath, hubPath)
		hub := readGolden[T](t, hubPath)
		back, err := convert[O](hub)
		require.NoError(t, err)
		requireEqual(t, readGolden[O](t, oldPath), back, "from v1")
		requireSent(t, goldenText(t, oldPath), back)
		requireEqual(t, readGolden[T](t, hubPath), hub, "what was converted from v1")
	})
}

// goldenToHub is for objects that are only read.
func goldenToHub[T, O any](t *testing.T, oldPath, hubPath string) {
	t.Helper()
	old := readGolden[O](t, oldPath)
	hub, err := convert[T](old)
	require.NoError(t, err)
	requireEqual(t, readGolden[T](t, hubPath), hub, "to v1")
	requireEqual(t, readGolden[O](t, oldPath), old, "what was converted to v1")
}

// requireSent checks that an object is sent as it came, apiVersion and kind aside. What
// servers send as null, or as an empty status, is not there.
func requireSent(t *testing.T, want []byte, object any) {
	t.Helper()
	sent, err := json.Marshal(object)
	require.NoError(t, err)
	fields := func(text []byte) map[string]any {
		var content map[string]any
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber() // 1.50 is not 1.5.
		require.NoError(t, decoder.Decode(&content))
		dropNulls(content)
		if status, _ := content["status"].(map[string]any); len(status) == 0 {
			delete(content, "status")
		}
		delete(content, "apiVersion")
		delete(content, "kind")
		return content
	}
	require.Empty(t, cmp.Diff(fields(want), fields(sent)), "expected (-), sent (+)")
}

func dropNulls(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if inner == nil {
				delete(v, key)
			}
			dropNulls(inner)
		}
	case []any:
		for _, inner := range v {
			dropNulls(inner)
		}
	}
}

// setFields returns the fields that are set in any of the values, as paths of JSON names.
// Those of metadata are left out: it is the same in all versions.
func setFields(values ...any) map[string]bool {
	fields := make(map[string]bool)
	for _, value := range values {
		walk(reflect.ValueOf(value), "", func(path string, v reflect.Value) {
			fields[path] = fields[path] || !v.IsZero()
		})
	}
	return fields
}

// walk visits all fields of a value, also those of a type that the value has none of.
func walk(v reflect.Value, path string, visit func(path string, v reflect.Value)) {
	switch v.Interface().(type) {
	case v1.NodeSelector, resource.Quantity, metav1.Time, metav1.ObjectMeta, metav1.ListMeta, metav1.TypeMeta, json.RawMessage:
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v = reflect.New(v.Type().Elem())
		}
		walk(v.Elem(), path, visit)
	case reflect.Slice, reflect.Map:
		elements := []reflect.Value{reflect.New(v.Type().Elem()).Elem()}
		if v.Kind() == reflect.Slice {
			for i := range v.Len() {
				elements = append(elements, v.Index(i))
			}
		} else {
			for _, key := range v.MapKeys() {
				elements = append(elements, v.MapIndex(key))
			}
		}
		for _, element := range elements {
			walk(element, path, visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			inside := path
			if name != "" && name != "-" {
				inside = strings.TrimPrefix(path+"."+name, ".")
				if name != "metadata" {
					visit(inside, v.Field(i))
				}
			}
			if field.IsExported() {
				walk(v.Field(i), inside, visit)
			}
		}
	}
}

// unset returns the fields that none of the values sets, sorted, without children of listed fields.
func unset(values ...any) []string {
	var result []string
	fields := setFields(values...)
	for path, set := range fields {
		parent, _, _ := cutLast(path)
		isSet, known := fields[parent]
		if !set && (!known || isSet) {
			result = append(result, path)
		}
	}
	slices.Sort(result)
	return result
}

func cutLast(path string) (before, after string, found bool) {
	if i := strings.LastIndex(path, "."); i >= 0 {
		return path[:i], path[i+1:], true
	}
	return "", path, false
}

// lost returns the fields of a fully set object that do not survive conversion to another version and back, as paths
// of JSON names, without children of listed fields.
func lost[T, O any](t *testing.T) []string {
	t.Helper()
	hub := filled[T]()
	old, err := convert[O](hub)
	require.NoError(t, err)
	back, err := convert[T](old)
	require.NoError(t, err)
	return unset(back)
}
