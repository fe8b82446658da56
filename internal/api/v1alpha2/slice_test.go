package v1alpha2

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const publishedSlice = `{
	"metadata": {"name": "node-1-gpus", "uid": "u", "resourceVersion": "7"},
	"nodeName": "node-1", "driverName": "gpu.example.com",
	"namedResources": {"instances": [
		{"name": "gpu-0", "attributes": [
			{"name": "memory", "quantity": "20Gi"}, {"name": "ecc", "bool": false}, {"name": "index", "int": 0},
			{"name": "links", "intSlice": {"ints": [1, 2]}}, {"name": "model.name", "string": "a"},
			{"name": "modes", "stringSlice": {"strings": ["x"]}}, {"name": "driver", "version": "1.2.3-rc.1+b"}]},
		{"name": "gpu-1", "attributes": [{"name": "links", "intSlice": {"ints": []}}, {"name": "modes", "stringSlice": {"strings": null}}]},
		{"name": "gpu-2"}]}}`

func TestSliceToHub(t *testing.T) {
	t.Parallel()
	slice := read[ResourceSlice](t, publishedSlice)
	hub, err := SliceToHub(slice)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(read[ResourceSlice](t, publishedSlice), slice), "the slice was modified")
	require.Empty(t, cmp.Diff(&resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1-gpus", UID: "u", ResourceVersion: "7"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: ptr.To("node-1"), Pool: resourceapi.ResourcePool{Name: "node-1", Generation: 1, ResourceSliceCount: -1},
			Devices: []resourceapi.Device{
				{
					Name: "gpu-0",
					Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
						"bool/ecc":          {BoolValue: ptr.To(false)},
						"int/index":         {IntValue: ptr.To[int64](0)},
						"intslice/links":    {IntValues: []int64{1, 2}},
						"string/model.name": {StringValue: ptr.To("a")},
						"stringslice/modes": {StringValues: []string{"x"}},
						"version/driver":    {VersionValue: ptr.To("1.2.3-rc.1+b")},
					},
					Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"quantity/memory": {Value: resource.MustParse("20Gi")}},
				},
				{
					Name: "gpu-1",
					Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
						"intslice/links": {IntValues: []int64{}}, "stringslice/modes": {StringValues: []string{}},
					},
				},
				{Name: "gpu-2"},
			},
		},
	}, hub))
	// A kind that is added to the type has to be added to the conversion.
	for i := range reflect.TypeFor[NamedResourcesAttribute]().NumField() {
		field := reflect.TypeFor[NamedResourcesAttribute]().Field(i).Name
		require.True(t, hasValue(reflect.ValueOf(slice.NamedResources.Instances[0].Attributes), "."+field), "field %s", field)
	}
}

func TestOddSlices(t *testing.T) {
	t.Parallel()
	hub, err := SliceToHub(read[ResourceSlice](t, `{"driverName": "d", "namedResources": {"instances": [{"name": "a"}]}}`))
	require.NoError(t, err)
	require.Nil(t, hub.Spec.NodeName, "a slice without node is for no node")
	require.Nil(t, hub.Spec.AllNodes)
	hub, err = SliceToHub(read[ResourceSlice](t, `{"driverName": "d", "nodeName": "n"}`))
	require.NoError(t, err)
	require.Empty(t, hub.Spec.Devices)
	_, err = SliceToHub(read[ResourceSlice](t, `{"metadata": {"name": "s"}, "namedResources": {"instances": [{"name": "a", "attributes": [{"name": "x"}]}]}}`))
	require.EqualError(t, err, "convert ResourceSlice s from v1alpha2: attribute x of a has no value; it may use an API that this scheduler does not know")
}
