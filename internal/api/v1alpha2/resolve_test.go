package v1alpha2

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

const (
	structuredClass = `{"metadata": {"name": "gpu"}, "driverName": "gpu.example.com", "structuredParameters": true}`
	// Class and claim with parameters of the vendor, for which a controller generates ours.
	vendorClass = `{"metadata": {"name": "gpu"}, "driverName": "gpu.example.com", "structuredParameters": true,
		"parametersRef": {"apiGroup": "gpu.example.com", "kind": "GPUClass", "name": "big", "namespace": "system"}}`
	vendorClaim = `{"metadata": {"name": "c", "namespace": "default"},
		"spec": {"resourceClassName": "gpu", "parametersRef": {"apiGroup": "gpu.example.com", "kind": "GPU", "name": "two"}}}`
	classParameters = `{"metadata": {"name": "generated-1", "namespace": "somewhere"},
		"generatedFrom": {"apiGroup": "gpu.example.com", "kind": "GPUClass", "name": "big", "namespace": "system"},
		"vendorParameters": [{"driverName": "other.example.com", "parameters": 1}, {"driverName": "gpu.example.com", "parameters": {"of": "class"}}],
		"filters": [{"driverName": "gpu.example.com", "namedResources": {"selector": "attributes.bool['ecc']"}}]}`
	claimParameters = `{"metadata": {"name": "generated-2", "namespace": "default"},
		"generatedFrom": {"apiGroup": "gpu.example.com", "kind": "GPU", "name": "two"},
		"driverRequests": [
			{"driverName": "gpu.example.com", "vendorParameters": {"of": "claim"}, "requests": [
				{"vendorParameters": {"of": "first"}, "namedResources": {"selector": "attributes.int['index'] > 0"}},
				{"namedResources": {"selector": "true"}}]},
			{"driverName": "nic.example.com", "requests": [{"namedResources": {"selector": "attributes.string['x'] == 'y'"}}]}]}`
)

// known returns what is known if a server has these objects; "" stands for none.
func known(t *testing.T, class, ofClass, ofClaim string) *Parameters {
	p := NewParameters()
	if class != "" {
		require.NoError(t, p.Classes.Add(read[ResourceClass](t, class)))
	}
	if ofClass != "" {
		require.NoError(t, p.ClassParameters.Add(read[ResourceClassParameters](t, ofClass)))
	}
	if ofClaim != "" {
		require.NoError(t, p.ClaimParameters.Add(read[ResourceClaimParameters](t, ofClaim)))
	}
	return p
}

func hubClaim(t *testing.T, text string) *resourceapi.ResourceClaim {
	hub, err := ToHub(read[ResourceClaim](t, text))
	require.NoError(t, err)
	return hub
}

// allocated returns the claim with what allocators make of the claim that Resolve returned.
func allocated(hub, resolved *resourceapi.ResourceClaim, devices ...resourceapi.DeviceRequestAllocationResult) *resourceapi.ResourceClaim {
	hub = hub.DeepCopy()
	hub.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: devices,
		Config: []resourceapi.DeviceAllocationConfiguration{{
			Source: resourceapi.AllocationConfigSourceClaim, DeviceConfiguration: resolved.Spec.Devices.Config[0].DeviceConfiguration,
		}},
	}}
	return hub
}

func TestResolve(t *testing.T) {
	t.Parallel()
	hub := hubClaim(t, vendorClaim)
	resolved, err := known(t, vendorClass, classParameters, claimParameters).Resolve(hub)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(hubClaim(t, vendorClaim), hub), "the claim was modified")
	request := func(name string, expressions ...string) resourceapi.DeviceRequest {
		exactly := &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}
		for _, expression := range expressions {
			exactly.Selectors = append(exactly.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}})
		}
		return resourceapi.DeviceRequest{Name: name, Exactly: exactly}
	}
	gpus, filter := `device.driver == "gpu.example.com"`, MarkExpression("attributes.bool['ecc']")
	require.Empty(t, cmp.Diff([]resourceapi.DeviceRequest{
		request("gpu.example.com-0", gpus, filter, MarkExpression("attributes.int['index'] > 0")),
		request("gpu.example.com-1", gpus, filter, MarkExpression("true")),
		request("nic.example.com-0", `device.driver == "nic.example.com"`, MarkExpression("attributes.string['x'] == 'y'")),
	}, resolved.Spec.Devices.Requests))

	// The allocator's result must convert to the server's form.
	hub = allocated(hub, resolved,
		resourceapi.DeviceRequestAllocationResult{Request: "gpu.example.com-0", Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-7"},
		resourceapi.DeviceRequestAllocationResult{Request: "gpu.example.com-1", Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-1"},
		resourceapi.DeviceRequestAllocationResult{Request: "nic.example.com-0", Driver: "nic.example.com", Pool: "node-1", Device: "gpu-1"},
	)
	stored, err := FromHub(hub)
	require.NoError(t, err)
	sent, err := json.Marshal(stored.Status)
	require.NoError(t, err)
	require.JSONEq(t, `{"driverName": "gpu.example.com", "allocation": {"resourceHandles": [
		{"driverName": "gpu.example.com", "structuredData": {"nodeName": "node-1",
			"vendorClassParameters": {"of": "class"}, "vendorClaimParameters": {"of": "claim"},
			"results": [{"vendorRequestParameters": {"of": "first"}, "namedResources": {"name": "gpu-7"}}, {"namedResources": {"name": "gpu-1"}}]}},
		{"driverName": "nic.example.com", "structuredData": {"nodeName": "node-1", "results": [{"namedResources": {"name": "gpu-1"}}]}}]}}`, string(sent))
	back, err := ToHub(stored)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(hub.Status, back.Status), "what was sent, and what comes back")
}

func TestResolveDefaults(t *testing.T) {
	t.Parallel()
	p := known(t, structuredClass, "", "")
	resolved, err := p.Resolve(hubClaim(t, `{"spec": {"resourceClassName": "gpu"}}`))
	require.NoError(t, err)
	require.Len(t, resolved.Spec.Devices.Requests, 1)
	require.Equal(t, MarkExpression("true"), resolved.Spec.Devices.Requests[0].Exactly.Selectors[1].CEL.Expression)
	require.JSONEq(t, `{"driverName": "gpu.example.com", "shareable": true, "resourceHandles": [
		{"driverName": "gpu.example.com", "structuredData": {"results": [{}]}}]}`, string(resolved.Spec.Devices.Config[0].Opaque.Parameters.Raw))
	v1Claim := &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "r"}}}}}
	same, err := p.Resolve(v1Claim)
	require.NoError(t, err)
	require.Same(t, v1Claim, same)
}

// Direct references are by name: those of classes in any namespace, those of claims in
// the one of the claim.
func TestResolveDirectReferences(t *testing.T) {
	t.Parallel()
	const class = `{"metadata": {"name": "gpu"}, "driverName": "d", "structuredParameters": true,
		"parametersRef": {"apiGroup": "resource.k8s.io", "kind": "ResourceClassParameters", "name": "p", "namespace": "system"}}`
	const claim = `{"metadata": {"name": "c", "namespace": "default"}, "spec": {"resourceClassName": "gpu",
		"parametersRef": {"apiGroup": "resource.k8s.io", "kind": "ResourceClaimParameters", "name": "p"}}}`
	const ofClass = `{"metadata": {"name": "p", "namespace": "system"}, "filters": [{"driverName": "d", "namedResources": {"selector": "true"}}]}`
	const ofClaim = `{"metadata": {"name": "p", "namespace": "default"}, "shareable": true,
		"driverRequests": [{"driverName": "d", "requests": [{"namedResources": {"selector": "false"}}]}]}`
	p := known(t, class, ofClass, ofClaim)
	resolved, err := p.Resolve(hubClaim(t, claim))
	require.NoError(t, err)
	require.Len(t, resolved.Spec.Devices.Requests[0].Exactly.Selectors, 3, "driver, filter, request")

	// Objects come, change and go.
	require.NoError(t, p.ClassParameters.Add(read[ResourceClassParameters](t, `{"metadata": {"name": "p", "namespace": "system"}}`)))
	resolved, err = p.Resolve(hubClaim(t, claim))
	require.NoError(t, err)
	require.Len(t, resolved.Spec.Devices.Requests[0].Exactly.Selectors, 2, "without filter")
	require.NoError(t, p.ClaimParameters.Delete(read[ResourceClaimParameters](t, `{"metadata": {"name": "p", "namespace": "default"}}`)))
	_, err = p.Resolve(hubClaim(t, claim))
	require.EqualError(t, err, "claim default/c: claim parameters default/p do not exist; waiting for them to be created")
	require.NoError(t, p.ClassParameters.Delete(read[ResourceClassParameters](t, `{"metadata": {"name": "p", "namespace": "system"}}`)))
	_, err = p.Resolve(hubClaim(t, claim))
	require.EqualError(t, err, "claim default/c: class parameters system/p of resource class gpu do not exist; waiting for them to be created")
	require.NoError(t, p.Classes.Delete(read[ResourceClass](t, `{"metadata": {"name": "gpu"}}`)))
	_, err = p.Resolve(hubClaim(t, claim))
	require.EqualError(t, err, "claim default/c: resource class gpu does not exist; waiting for it to be created")
}

func TestResolveSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	elsewhere := func(text, namespace string) string {
		var object map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &object))
		object["metadata"].(map[string]any)["namespace"] = namespace
		raw, err := json.Marshal(object)
		require.NoError(t, err)
		return string(raw)
	}
	for name, tc := range map[string]struct {
		parameters *Parameters
		says       string
	}{
		"nothing known":       {NewParameters(), "resource class gpu does not exist"},
		"no class parameters": {known(t, vendorClass, "", claimParameters), "class parameters for GPUClass.gpu.example.com system/big (named by resource class gpu) do not exist"},
		"no claim parameters": {known(t, vendorClass, classParameters, ""), "claim parameters for GPU.gpu.example.com two do not exist in namespace default"},
		"in another namespace": {known(t, vendorClass, classParameters, elsewhere(claimParameters, "other")),
			"claim parameters for GPU.gpu.example.com two do not exist in namespace default"},
		"classic": {known(t, `{"metadata": {"name": "gpu"}, "driverName": "d"}`, "", ""), "resource class gpu has no structuredParameters"},
		"class parameters without namespace": {known(t, `{"metadata": {"name": "gpu"}, "driverName": "d", "structuredParameters": true,
			"parametersRef": {"apiGroup": "resource.k8s.io", "kind": "ResourceClassParameters", "name": "p"}}`, `{"metadata": {"name": "p", "namespace": "default"}}`, ""),
			"resource class gpu refers to class parameters p without saying where they are; set parametersRef.namespace"},
		"unknown model": {known(t, structuredClass, "", `{"metadata": {"name": "p", "namespace": "default"},
			"generatedFrom": {"apiGroup": "gpu.example.com", "kind": "GPU", "name": "two"}, "driverRequests": [{"driverName": "d", "requests": [{}]}]}`),
			"claim parameters default/p: request 0 for driver d is not for named resources"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := tc.parameters.Resolve(hubClaim(t, vendorClaim))
			require.ErrorContains(t, err, "claim default/c: "+tc.says)
		})
	}
}

// Of several parameters for one object of the vendor, it is always the same.
func TestGeneratedTwice(t *testing.T) {
	t.Parallel()
	const from = `"generatedFrom": {"apiGroup": "gpu.example.com", "kind": "GPU", "name": "two"}`
	p := known(t, structuredClass, "", `{"metadata": {"name": "b", "namespace": "default"}, `+from+`}`)
	require.NoError(t, p.ClaimParameters.Add(read[ResourceClaimParameters](t, `{"metadata": {"name": "a", "namespace": "default"}, "shareable": true, `+from+`}`)))
	shareable := func() bool {
		resolved, err := p.Resolve(hubClaim(t, vendorClaim))
		require.NoError(t, err)
		rest := &outline{}
		_, err = carried(&resolved.Spec.Devices.Config[0].DeviceConfiguration, rest)
		require.NoError(t, err)
		return rest.Shareable
	}
	require.True(t, shareable())
	// One of them turns out to be for something else.
	require.NoError(t, p.ClaimParameters.Add(read[ResourceClaimParameters](t, `{"metadata": {"name": "a", "namespace": "default"}, "shareable": true}`)))
	require.False(t, shareable())
}

func TestAllocationsThatCannotBeStored(t *testing.T) {
	t.Parallel()
	hub := hubClaim(t, vendorClaim)
	resolved, err := known(t, vendorClass, classParameters, claimParameters).Resolve(hub)
	require.NoError(t, err)
	result := func(request, driver, node string) resourceapi.DeviceRequestAllocationResult {
		return resourceapi.DeviceRequestAllocationResult{Request: request, Driver: driver, Pool: node, Device: "x"}
	}
	config := []resourceapi.DeviceAllocationConfiguration{{DeviceConfiguration: resolved.Spec.Devices.Config[0].DeviceConfiguration}}
	for name, tc := range map[string]struct {
		config  []resourceapi.DeviceAllocationConfiguration
		results []resourceapi.DeviceRequestAllocationResult
		says    string
	}{
		"not of a resolved claim": {says: "it lacks the configuration"},
		"a device is missing":     {config: config, results: []resourceapi.DeviceRequestAllocationResult{result("gpu.example.com-0", "gpu.example.com", "n")}, says: "no device for request gpu.example.com-1"},
		"one too many":            {config: config, results: []resourceapi.DeviceRequestAllocationResult{result("gpu.example.com-2", "gpu.example.com", "n")}, says: "which the claim does not have"},
		"on two nodes": {config: config, results: []resourceapi.DeviceRequestAllocationResult{
			result("gpu.example.com-0", "gpu.example.com", "n"), result("gpu.example.com-1", "gpu.example.com", "m")}, says: "on nodes n and m"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := hub.DeepCopy()
			claim.Status.Allocation = &resourceapi.AllocationResult{NodeSelector: &v1.NodeSelector{}}
			claim.Status.Allocation.Devices.Config, claim.Status.Allocation.Devices.Results = tc.config, tc.results
			_, err := FromHub(claim)
			require.ErrorContains(t, err, "convert the allocation of ResourceClaim default/c to v1alpha2: ")
			require.ErrorContains(t, err, tc.says)
		})
	}
	_, err = FromHub(&resourceapi.ResourceClaim{})
	require.ErrorContains(t, err, "was not read in that version")
}
