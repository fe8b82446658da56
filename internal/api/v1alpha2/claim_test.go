package v1alpha2

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// read decodes an object as a server sends it, without spaces.
func read[T any](t *testing.T, text string) *T {
	t.Helper()
	object := new(T)
	var sent bytes.Buffer
	require.NoError(t, json.Compact(&sent, []byte(text)))
	decoder := json.NewDecoder(&sent)
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(object))
	return object
}

const allocatedClaim = `{
	"metadata": {"name": "gpus", "namespace": "default", "uid": "u", "resourceVersion": "7",
		"finalizers": ["example.com/other", "dra.k8s.io/delete-protection"]},
	"spec": {"resourceClassName": "gpu", "allocationMode": "WaitForFirstConsumer",
		"parametersRef": {"apiGroup": "gpu.example.com", "kind": "GPU", "name": "large"}},
	"status": {
		"driverName": "gpu.example.com",
		"reservedFor": [{"apiGroup": "g", "resource": "pods", "name": "a", "uid": "ua"}, {"resource": "pods", "name": "b", "uid": "ub"}],
		"allocation": {
			"shareable": true,
			"availableOnNodes": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]},
			"resourceHandles": [
				{"driverName": "gpu.example.com", "structuredData": {
					"vendorClassParameters": {"profile": {"b": 1, "a": [2.50]}}, "vendorClaimParameters": null, "nodeName": "node-1",
					"results": [
						{"vendorRequestParameters": {"first": true}, "namedResources": {"name": "gpu-3"}},
						{"vendorRequestParameters": null, "namedResources": {"name": "gpu-0"}}]}},
				{"driverName": "nic.example.com", "structuredData": {
					"vendorClaimParameters": "fast", "nodeName": "node-1", "results": [{"namedResources": {"name": "gpu-0"}}]}},
				{"driverName": "empty.example.com", "structuredData": {"nodeName": "node-2", "results": []}},
				{"driverName": "fpga.example.com", "data": "{\"image\": \"x\"}"}
			]}}}`

func TestClaimToHub(t *testing.T) {
	t.Parallel()
	hub, err := ToHub(read[ResourceClaim](t, allocatedClaim))
	require.NoError(t, err)
	require.Equal(t, metav1.ObjectMeta{Name: "gpus", Namespace: "default", UID: "u", ResourceVersion: "7",
		Finalizers: []string{"example.com/other", resourceapi.Finalizer}}, hub.ObjectMeta)
	require.Equal(t, []resourceapi.DeviceRequestAllocationResult{
		{Request: "gpu.example.com-0", Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-3"},
		{Request: "gpu.example.com-1", Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0"},
		{Request: "nic.example.com-0", Driver: "nic.example.com", Pool: "node-1", Device: "gpu-0"},
	}, hub.Status.Allocation.Devices.Results)
	require.Equal(t, []string{"node-1"}, hub.Status.Allocation.NodeSelector.NodeSelectorTerms[0].MatchFields[0].Values)
	require.Equal(t, []types.UID{"ua", "ub"}, []types.UID{hub.Status.ReservedFor[0].UID, hub.Status.ReservedFor[1].UID})
	require.Len(t, hub.Spec.Devices.Requests, 1)
	require.Empty(t, hub.Spec.Devices.Requests[0].Exactly.AllocationMode, "no allocator must take it for a request that it can meet")
	rest, err := outlineOf(hub.Status.Allocation)
	require.NoError(t, err)
	require.True(t, rest.Shareable)
	require.True(t, IsFrom(hub))
	require.False(t, IsFrom(&resourceapi.ResourceClaim{}))
}

func TestClaimSurvivesTheHub(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"allocated":      allocatedClaim,
		"minimal":        `{"metadata": {"name": "c"}, "spec": {"resourceClassName": "gpu"}}`,
		"not shareable":  `{"spec": {"resourceClassName": "gpu"}, "status": {"driverName": "d.example.com", "allocation": {}}}`,
		"immediate":      `{"spec": {"resourceClassName": "gpu", "allocationMode": "Immediate"}}`,
		"same driver":    `{"spec": {"resourceClassName": "gpu"}, "status": {"driverName": "d", "allocation": {"resourceHandles": [{"driverName": "d", "structuredData": {"nodeName": "n", "results": [{"namedResources": {"name": "a"}}]}}, {"driverName": "d", "structuredData": {"nodeName": "n", "results": [{"namedResources": {"name": "b"}}]}}]}}}`,
		"namespaced ref": `{"spec": {"resourceClassName": "gpu", "parametersRef": {"kind": "K", "name": "n", "namespace": "ns"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := read[ResourceClaim](t, text)
			hub, err := ToHub(claim)
			require.NoError(t, err)
			back, err := FromHub(hub)
			require.NoError(t, err)
			want := read[ResourceClaim](t, text)
			require.Empty(t, cmp.Diff(want, claim), "the claim was modified")
			sent, err := json.Marshal(back)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(want, back))
			expected, err := json.Marshal(want)
			require.NoError(t, err)
			require.JSONEq(t, string(expected), string(sent))
		})
	}
}

// Every field of the status in v1alpha2 is in use in allocatedClaim, except for those
// that are listed.
func TestAllFieldsOfTheStatusAreCovered(t *testing.T) {
	t.Parallel()
	elsewhere := map[string]string{
		".DeallocationRequested": "package apiversions keeps it",
	}
	claim := read[ResourceClaim](t, allocatedClaim)
	for _, path := range leaves(reflect.TypeFor[ResourceClaimStatus]()) {
		_, listed := elsewhere[path]
		require.NotEqual(t, listed, hasValue(reflect.ValueOf(claim.Status), path), "field status%s", path)
	}
}

// fate is the fate of a field of v1 that is changed before a claim is sent.
type fate string

const (
	kept    fate = "kept"
	refused fate = "refused" // with an error
	dropped fate = "dropped" // as the server would do
)

// Every field of the status in v1 is listed, with what becomes of it in v1alpha2.
func TestFatesOfFieldsOfV1(t *testing.T) {
	t.Parallel()
	fates := map[string]fate{
		".ReservedFor.APIGroup":                                kept,
		".ReservedFor.Resource":                                kept,
		".ReservedFor.Name":                                    kept,
		".ReservedFor.UID":                                     kept,
		".Allocation.NodeSelector":                             kept,
		".Allocation.Devices.Results.Device":                   kept,
		".Allocation.Devices.Results.Pool":                     refused, // All devices of a driver are on one node.
		".Allocation.Devices.Results.Driver":                   refused, // It is that of the request.
		".Allocation.Devices.Results.Request":                  refused,
		".Allocation.Devices.Config.Opaque.Driver":             refused, // The only one is ours.
		".Allocation.Devices.Config.Source":                    dropped,
		".Allocation.Devices.Config.Requests":                  dropped,
		".Allocation.AllocationTimestamp":                      dropped, // Only needed for binding conditions.
		".Allocation.Devices.Results.AdminAccess":              dropped, // All others are for
		".Allocation.Devices.Results.Tolerations":              dropped, // features which v1alpha2
		".Allocation.Devices.Results.BindingConditions":        dropped, // does not have, so
		".Allocation.Devices.Results.BindingFailureConditions": dropped, // that nobody sets
		".Allocation.Devices.Results.ShareID":                  dropped, // them.
		".Allocation.Devices.Results.ConsumedCapacity":         dropped,
		".Allocation.Devices.Results.SkipNodeOperations":       dropped,
		".Devices": dropped,
	}
	found := make(map[string]fate)
	for _, path := range leaves(reflect.TypeFor[resourceapi.ResourceClaimStatus]()) {
		if path == ".Allocation.Devices.Config.Opaque.Parameters" {
			continue // Has a structure of its own; TestClaimSurvivesTheHub is about it.
		}
		found[path] = fateOf(t, path)
	}
	require.Empty(t, cmp.Diff(fates, found))
}

func fateOf(t *testing.T, path string) fate {
	hub, err := ToHub(read[ResourceClaim](t, allocatedClaim))
	require.NoError(t, err)
	change(reflect.ValueOf(&hub.Status).Elem(), path)
	want := hub.DeepCopy()
	old, err := FromHub(hub)
	if err != nil {
		return refused
	}
	back, err := ToHub(old)
	require.NoError(t, err)
	if cmp.Equal(want.Status, back.Status) {
		return kept
	}
	return dropped
}

// leaves returns the fields of a type, into structs of the API group but no further.
func leaves(of reflect.Type) []string {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	own := of.PkgPath() == reflect.TypeFor[resourceapi.ResourceClaim]().PkgPath() || of.PkgPath() == reflect.TypeFor[ResourceClaim]().PkgPath()
	inV1Only := of == reflect.TypeFor[resourceapi.AllocatedDeviceStatus]() || of == reflect.TypeFor[resourceapi.DeviceToleration]()
	if of.Kind() != reflect.Struct || !own || inV1Only {
		return []string{""}
	}
	var paths []string
	for i := range of.NumField() {
		name := "." + of.Field(i).Name
		if of.Field(i).Anonymous {
			name = ""
		}
		for _, inner := range leaves(of.Field(i).Type) {
			paths = append(paths, name+inner)
		}
	}
	return paths
}

// hasValue reports whether any element has something in the field.
func hasValue(v reflect.Value, path string) bool {
	switch {
	case v.Kind() == reflect.Slice && path != "":
		for i := range v.Len() {
			if hasValue(v.Index(i), path) {
				return true
			}
		}
		return false
	case path == "":
		return !v.IsZero()
	case v.Kind() == reflect.Pointer:
		return !v.IsNil() && hasValue(v.Elem(), path)
	}
	name, rest := cutPath(path)
	return hasValue(v.FieldByName(name), rest)
}

func cutPath(path string) (name, rest string) {
	name = path[1:]
	if i := strings.Index(name, "."); i >= 0 {
		return name[:i], name[i:]
	}
	return name, ""
}

// change gives the field another value, in the first element of lists.
func change(v reflect.Value, path string) {
	for path != "" {
		switch v.Kind() {
		case reflect.Pointer:
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		case reflect.Slice:
			v = v.Index(0)
		default:
			name, rest := cutPath(path)
			v, path = v.FieldByName(name), rest
		}
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "-changed")
	case reflect.Pointer:
		if v.Type() == reflect.TypeFor[*v1.NodeSelector]() {
			v.Set(reflect.ValueOf(&v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{}}}))
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	default:
		panic("no change for " + v.Type().String())
	}
}
