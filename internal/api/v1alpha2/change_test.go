package v1alpha2

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
)

func TestConcerns(t *testing.T) {
	t.Parallel()
	p := known(t, vendorClass, classParameters, claimParameters)
	claim := hubClaim(t, vendorClaim)
	ofClass := func(text string) any { return read[ResourceClassParameters](t, text) }
	ofClaim := func(text string) any { return read[ResourceClaimParameters](t, text) }
	for name, tc := range map[string]struct {
		change any
		want   bool
	}{
		"anything":                            {nil, true},
		"its class":                           {read[ResourceClass](t, vendorClass), true},
		"another class":                       {read[ResourceClass](t, `{"metadata": {"name": "other"}}`), false},
		"its class parameters":                {ofClass(classParameters), true},
		"other class parameters":              {ofClass(`{"generatedFrom": {"apiGroup": "gpu.example.com", "kind": "GPUClass", "name": "big", "namespace": "other"}}`), false},
		"direct class parameters, not for it": {ofClass(`{"metadata": {"name": "big", "namespace": "system"}}`), false},
		"its parameters":                      {ofClaim(claimParameters), true},
		"parameters of others":                {ofClaim(`{"metadata": {"namespace": "default"}, "generatedFrom": {"apiGroup": "gpu.example.com", "kind": "GPU", "name": "one"}}`), false},
		"in another namespace":                {ofClaim(`{"metadata": {"namespace": "other"}, "generatedFrom": {"apiGroup": "gpu.example.com", "kind": "GPU", "name": "two"}}`), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, p.Concerns(tc.change, claim))
			allocated := claim.DeepCopy()
			allocated.Status.Allocation = &resourceapi.AllocationResult{}
			require.False(t, p.Concerns(tc.change, allocated), "an allocated claim has what it asked for")
			require.False(t, p.Concerns(tc.change, &resourceapi.ResourceClaim{}), "claims of other versions have nothing to do with it")
		})
	}
	direct := hubClaim(t, `{"metadata": {"name": "c", "namespace": "default"}, "spec": {"resourceClassName": "gpu",
		"parametersRef": {"apiGroup": "resource.k8s.io", "kind": "ResourceClaimParameters", "name": "p"}}}`)
	require.True(t, p.Concerns(ofClaim(`{"metadata": {"name": "p", "namespace": "default"}}`), direct))
	require.False(t, p.Concerns(ofClaim(`{"metadata": {"name": "q", "namespace": "default"}}`), direct))
	require.False(t, p.Concerns(ofClaim(`{"metadata": {"name": "p", "namespace": "default"}}`), claim))
}
