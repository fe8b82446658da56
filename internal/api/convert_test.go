package api

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// fill sets every field of a value to something that it has not by default, and that is
// different each time.
func fill(v reflect.Value, next func() int) {
	switch v.Addr().Interface().(type) {
	case *metav1.Time:
		v.Set(reflect.ValueOf(metav1.NewTime(time.Unix(int64(1700000000+next()), 0))))
		return
	case *resource.Quantity:
		v.Set(reflect.ValueOf(*resource.NewQuantity(int64(next()), resource.DecimalSI)))
		return
	case *runtime.RawExtension:
		v.Set(reflect.ValueOf(runtime.RawExtension{Raw: fmt.Appendf(nil, `{"n":%d}`, next())}))
		return
	case *metav1.FieldsV1:
		v.Set(reflect.ValueOf(*metav1.NewFieldsV1(fmt.Sprintf(`{"f:status":{"f:n%d":{}}}`, next()))))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), next)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Type != reflect.TypeFor[metav1.TypeMeta]() {
				fill(v.Field(i), next)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), next)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, next)
		fill(value, next)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString(fmt.Sprintf("text-%d", next()))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(int64(next()))
	case reflect.Uint8:
		v.SetUint(uint64(next() % 256))
	default:
		panic(fmt.Sprintf("no filling for %s", v.Type()))
	}
}

func filled[T any]() *T {
	object, n := new(T), 0
	fill(reflect.ValueOf(object).Elem(), func() int { n++; return n })
	return object
}

// roundTrip checks that an object with all fields set survives the way to another version
// and back, also by way of the server's JSON.
func roundTrip[T, O any](t *testing.T) {
	t.Run(fmt.Sprintf("%T", *new(O)), func(t *testing.T) {
		t.Parallel()
		hub := filled[T]()
		before := filled[T]()
		old, err := convert[O](hub)
		require.NoError(t, err)
		sent, err := json.Marshal(old)
		require.NoError(t, err)
		stored := new(O)
		require.NoError(t, json.Unmarshal(sent, stored))
		back, err := convert[T](stored)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(before, back, cmp.AllowUnexported(resource.Quantity{}, metav1.FieldsV1{})), "v1 (-), after the way to the other version and back (+)")
		require.Empty(t, cmp.Diff(before, hub, cmp.AllowUnexported(resource.Quantity{}, metav1.FieldsV1{})), "the object was modified")
	})
}

// The types of 1.37 have all fields of v1 in both beta versions, so nothing is lost. (A
// server of an older version drops fields that it does not know.)
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	roundTrip[resourceapi.ResourceClaim, resourcev1beta2.ResourceClaim](t)
	roundTrip[resourceapi.ResourceClaim, resourcev1beta1.ResourceClaim](t)
	roundTrip[resourceapi.ResourceClaimTemplate, resourcev1beta2.ResourceClaimTemplate](t)
	roundTrip[resourceapi.ResourceClaimTemplate, resourcev1beta1.ResourceClaimTemplate](t)
	roundTrip[resourceapi.DeviceClass, resourcev1beta2.DeviceClass](t)
	roundTrip[resourceapi.DeviceClass, resourcev1beta1.DeviceClass](t)
	roundTrip[resourceapi.ResourceSlice, resourcev1beta2.ResourceSlice](t)
	roundTrip[resourceapi.ResourceSlice, resourcev1beta1.ResourceSlice](t)
	roundTrip[resourceapi.DeviceTaintRule, resourcev1beta2.DeviceTaintRule](t)
	roundTrip[resourceapi.ResourceClaimList, resourcev1beta1.ResourceClaimList](t)
	roundTrip[resourceapi.ResourceSliceList, resourcev1beta1.ResourceSliceList](t)
}

// The shapes that are different in v1beta1, as a server of 1.32 sends them.
func TestShapesOfV1beta1(t *testing.T) {
	t.Parallel()
	claim := &resourcev1beta1.ResourceClaim{}
	require.NoError(t, json.Unmarshal([]byte(`{"spec": {"devices": {"requests": [
		{"name": "gpu", "deviceClassName": "gpus", "allocationMode": "ExactCount", "count": 2, "adminAccess": true,
		 "selectors": [{"cel": {"expression": "true"}}]}]}},
		"status": {"allocation": {"devices": {"results": [{"request": "gpu", "driver": "d", "pool": "p", "device": "gpu-0"}]}},
		"reservedFor": [{"resource": "pods", "name": "a", "uid": "u"}]}}`), claim))
	hub, err := convert[resourceapi.ResourceClaim](claim)
	require.NoError(t, err)
	admin := true
	require.Empty(t, cmp.Diff([]resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "gpus", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 2, AdminAccess: &admin,
		Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: "true"}}},
	}}}, hub.Spec.Devices.Requests))
	require.Equal(t, "gpu-0", hub.Status.Allocation.Devices.Results[0].Device)
	require.Equal(t, "a", hub.Status.ReservedFor[0].Name)

	slice := &resourcev1beta1.ResourceSlice{}
	require.NoError(t, json.Unmarshal([]byte(`{"spec": {"driver": "d", "nodeName": "n", "pool": {"name": "p", "generation": 3, "resourceSliceCount": 1},
		"devices": [{"name": "gpu-0", "basic": {"attributes": {"model": {"string": "x"}}, "capacity": {"memory": {"value": "2Gi"}}}}]}}`), slice))
	hubSlice, err := convert[resourceapi.ResourceSlice](slice)
	require.NoError(t, err)
	require.Equal(t, "n", *hubSlice.Spec.NodeName)
	require.Nil(t, hubSlice.Spec.AllNodes)
	require.Equal(t, int64(3), hubSlice.Spec.Pool.Generation)
	device := hubSlice.Spec.Devices[0]
	require.Equal(t, "x", *device.Attributes["model"].StringValue)
	require.Equal(t, int64(2<<30), ptrTo(device.Capacity["memory"].Value).Value())
}

func ptrTo[T any](value T) *T { return &value }
