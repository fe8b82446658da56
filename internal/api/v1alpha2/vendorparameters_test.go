package v1alpha2

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestStorable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``:   ``,
		`{}`: `{}`,
		`{ "z": [1.50, 2],  "a" : {"c": 1e3, "b": null} }`: `{"a":{"b":null,"c":1000},"z":[1.5,2]}`,
		`{"<b>": "&", "n": 9007199254740993}`:              `{"\u003cb\u003e":"\u0026","n":9007199254740993}`, // That is 2^53+1.
		` "text" `:                                         `"text"`,
		`[ 1.0 ]`:                                          `[1]`,
		`no JSON`:                                          `no JSON`,
	} {
		got := storable(runtime.RawExtension{Raw: []byte(text)})
		require.Equal(t, want, string(got.Raw))
		require.Equal(t, got, storable(got), "a second time")
	}
}

// What a claim is allocated with does not depend on how its parameters were written.
func TestResolveMakesVendorParametersStorable(t *testing.T) {
	t.Parallel()
	p := known(t, vendorClass, "", "")
	odd := runtime.RawExtension{Raw: []byte(`{ "b": 1, "a": 2 }`)}
	ofClass := read[ResourceClassParameters](t, classParameters)
	ofClass.VendorParameters[1].Parameters = odd
	require.NoError(t, p.ClassParameters.Add(ofClass))
	ofClaim := read[ResourceClaimParameters](t, claimParameters)
	ofClaim.DriverRequests[0].VendorParameters = odd
	ofClaim.DriverRequests[0].Requests[0].VendorParameters = odd
	require.NoError(t, p.ClaimParameters.Add(ofClaim))

	resolved, err := p.Resolve(hubClaim(t, vendorClaim))
	require.NoError(t, err)
	require.Contains(t, string(resolved.Spec.Devices.Config[0].Opaque.Parameters.Raw), `{"driverName":"gpu.example.com","structuredData":{`+
		`"vendorClassParameters":{"a":2,"b":1},"vendorClaimParameters":{"a":2,"b":1},"results":[{"vendorRequestParameters":{"a":2,"b":1}},{}]}}`)
	require.Equal(t, odd, ofClaim.DriverRequests[0].VendorParameters, "the parameters were modified")
}

// A claim that asks for no devices is allocated all the same.
func TestResolveWithoutRequests(t *testing.T) {
	t.Parallel()
	p := known(t, structuredClass, "", `{"metadata": {"name": "p", "namespace": "default"}, "shareable": true,
		"generatedFrom": {"apiGroup": "gpu.example.com", "kind": "GPU", "name": "two"}}`)
	hub := hubClaim(t, vendorClaim)
	resolved, err := p.Resolve(hub)
	require.NoError(t, err)
	require.Empty(t, resolved.Spec.Devices.Requests)
	stored, err := FromHub(allocated(hub, resolved))
	require.NoError(t, err)
	sent, err := json.Marshal(stored.Status)
	require.NoError(t, err)
	require.JSONEq(t, `{"driverName": "gpu.example.com", "allocation": {"shareable": true}}`, string(sent))
}
