package api

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha2"
)

// A claim that a scheduler has allocated, one that a controller has allocated, and one without allocation.
var alpha2Claims = []string{"claim", "claim-classic", "claim-pending"}

func TestGoldenV1alpha2(t *testing.T) {
	t.Parallel()
	for _, name := range alpha2Claims {
		golden[resourceapi.ResourceClaim, v1alpha2.ResourceClaim](t, "v1alpha2/"+name)
	}
	golden[resourceapi.ResourceClaimTemplate, v1alpha2.ResourceClaimTemplate](t, "v1alpha2/template")
}

// Classes and slices of v1alpha2 are only read: the administrator and drivers write them,
// and a request for devices in v1 has not all that they say.
func TestGoldenV1alpha2ReadOnly(t *testing.T) {
	t.Parallel()
	goldenToHub[resourceapi.DeviceClass, v1alpha2.ResourceClass](t, "v1alpha2/class.json", "v1alpha2/class.hub.json")
	goldenToHub[resourceapi.ResourceSlice, v1alpha2.ResourceSlice](t, "v1alpha2/slice.json", "v1alpha2/slice.hub.json")
	_, err := convert[v1alpha2.ResourceClass](readGolden[resourceapi.DeviceClass](t, "v1alpha2/class.hub.json"))
	require.ErrorContains(t, err, "can only be read")
	_, err = convert[v1alpha2.ResourceSlice](readGolden[resourceapi.ResourceSlice](t, "v1alpha2/slice.hub.json"))
	require.ErrorContains(t, err, "can only be read")
}

// The golden files have every field. What becomes of the fields of v1 is in package
// v1alpha2 (TestFatesOfFieldsOfV1).
func TestGoldenV1alpha2IsComplete(t *testing.T) {
	t.Parallel()
	var claims []any
	for _, name := range alpha2Claims {
		claims = append(claims, readGolden[v1alpha2.ResourceClaim](t, "v1alpha2/"+name+".json"))
	}
	require.Empty(t, unset(claims...))
	require.Empty(t, unset(readGolden[v1alpha2.ResourceClass](t, "v1alpha2/class.json")))
	require.Empty(t, unset(readGolden[v1alpha2.ResourceSlice](t, "v1alpha2/slice.json")))
}
