package api

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
)

// Each kind of place where devices can be: per device, on a node, on some, on all.
var betaSlices = []string{"slice", "slice-node", "slice-shared", "slice-everywhere"}

func TestGoldenV1beta1(t *testing.T) {
	t.Parallel()
	golden[resourceapi.ResourceClaim, resourcev1beta1.ResourceClaim](t, "v1beta1/claim")
	golden[resourceapi.ResourceClaimTemplate, resourcev1beta1.ResourceClaimTemplate](t, "v1beta1/template")
	golden[resourceapi.DeviceClass, resourcev1beta1.DeviceClass](t, "v1beta1/class")
	for _, name := range betaSlices {
		golden[resourceapi.ResourceSlice, resourcev1beta1.ResourceSlice](t, "v1beta1/"+name)
	}
}

// v1beta2 has the same JSON as v1, so the hub form of v1beta1 is both the input and the expected result.
func TestGoldenV1beta2(t *testing.T) {
	t.Parallel()
	same := func(name string) (old, hub string) {
		return "v1beta1/" + name + ".hub.json", "v1beta1/" + name + ".hub.json"
	}
	old, hub := same("claim")
	goldenPair[resourceapi.ResourceClaim, resourcev1beta2.ResourceClaim](t, old, hub)
	old, hub = same("template")
	goldenPair[resourceapi.ResourceClaimTemplate, resourcev1beta2.ResourceClaimTemplate](t, old, hub)
	old, hub = same("class")
	goldenPair[resourceapi.DeviceClass, resourcev1beta2.DeviceClass](t, old, hub)
	for _, name := range betaSlices {
		old, hub = same(name)
		goldenPair[resourceapi.ResourceSlice, resourcev1beta2.ResourceSlice](t, old, hub)
	}
}

// The golden files have every field, of the older versions and of v1.
func TestGoldenBetaIsComplete(t *testing.T) {
	t.Parallel()
	require.Empty(t, unset(readGolden[resourcev1beta1.ResourceClaim](t, "v1beta1/claim.json")))
	require.Empty(t, unset(readGolden[resourceapi.ResourceClaim](t, "v1beta1/claim.hub.json")))
	require.Empty(t, unset(readGolden[resourcev1beta2.ResourceClaim](t, "v1beta1/claim.hub.json")))
	require.Empty(t, unset(readGolden[resourceapi.DeviceClass](t, "v1beta1/class.hub.json")))
	var older, hub []any
	for _, name := range betaSlices {
		older = append(older, readGolden[resourcev1beta1.ResourceSlice](t, "v1beta1/"+name+".json"))
		hub = append(hub, readGolden[resourceapi.ResourceSlice](t, "v1beta1/"+name+".hub.json"))
	}
	require.Empty(t, unset(older...))
	require.Empty(t, unset(hub...))
}
