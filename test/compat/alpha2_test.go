package compat

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha2"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// alpha2 is a space with objects as they are in v1alpha2.
type alpha2 struct{ *harness.Space }

func newAlpha2(t *testing.T, name string, nodes int) alpha2 {
	t.Helper()
	if tested.claims != api.V1alpha2 {
		t.Skip("this is about claims of v1alpha2")
	}
	return alpha2{newSpace(t, name, nodes)}
}

// put creates an object that is given as JSON, without metadata.
func put[T any, P interface {
	*T
	runtime.Object
	metav1.Object
}](s alpha2, plural, name, text string) {
	s.T.Helper()
	object := P(new(T))
	require.NoError(s.T, json.Unmarshal([]byte(text), object))
	object.SetName(name)
	namespace := s.Name
	if plural == "resourceclasses" || plural == "resourceslices" {
		namespace = ""
	}
	require.NoError(s.T, s.Cluster.CreateUntyped(s.T.Context(), plural, namespace, object))
}

func (s alpha2) class(name, text string) {
	put[v1alpha2.ResourceClass](s, "resourceclasses", name, text)
}

func (s alpha2) classParameters(name, text string) {
	put[v1alpha2.ResourceClassParameters](s, "resourceclassparameters", name, text)
}

func (s alpha2) claimParameters(name, text string) {
	put[v1alpha2.ResourceClaimParameters](s, "resourceclaimparameters", name, text)
}

func (s alpha2) slice(name, text string) {
	put[v1alpha2.ResourceSlice](s, "resourceslices", name, text)
}

// claimAndPod makes a claim for parameters, to which it refers by JSON ("" stands for
// none), and a pod of the same name.
func (s alpha2) claimAndPod(name, class, reference string) {
	if reference != "" {
		reference = `, "parametersRef": ` + reference
	}
	put[v1alpha2.ResourceClaim](s, "resourceclaims", name, fmt.Sprintf(`{"spec": {"resourceClassName": %q%s}}`, class, reference))
	s.Create(s.Pod(name, builder.Uses(name)))
}

const (
	direct = `{"apiGroup": "resource.k8s.io", "kind": "ResourceClaimParameters", "name": %q}`
	vendor = `{"apiGroup": "gpu.example.com", "kind": %q, "name": %q}`
)

// untyped is a client for a resource of the namespace, as the server has it.
func (s alpha2) untyped(plural string) dynamic.ResourceInterface {
	s.T.Helper()
	client, err := dynamic.NewForConfig(s.Cluster.ControlPlane.AdminConfig())
	require.NoError(s.T, err)
	return client.Resource(v1alpha2.GroupVersion.WithResource(plural)).Namespace(s.Name)
}

// stored reads the status of a claim as the server has it.
func (s alpha2) stored(claim string) string {
	s.T.Helper()
	object, err := s.untyped("resourceclaims").Get(s.T.Context(), claim, metav1.GetOptions{})
	require.NoError(s.T, err)
	status, err := json.Marshal(object.Object["status"])
	require.NoError(s.T, err)
	return string(status)
}

// What drivers get to see: devices of two drivers on one node, with all parameters.
func TestV1alpha2Handles(t *testing.T) {
	t.Parallel()
	s := newAlpha2(t, "handles", 1)
	nic, class := s.Name+"-nic.example.com", s.Name+"-large"
	s.Devices(0, harness.Numbered(4)...)
	s.slice(s.Name+"-nics", fmt.Sprintf(`{"nodeName": %q, "driverName": %q, "namedResources": {"instances": [{"name": "eth-0"}]}}`, s.Node(0), nic))
	s.classParameters("large", fmt.Sprintf(`{
		"vendorParameters": [{"driverName": %[1]q, "parameters": {"of": "class <b>"}}],
		"filters": [{"driverName": %[1]q, "namedResources": {"selector": "attributes.int['index'] > 0"}}]}`, s.Driver))
	s.class(class, fmt.Sprintf(`{"driverName": %q, "structuredParameters": true, "parametersRef":
		{"apiGroup": "resource.k8s.io", "kind": "ResourceClassParameters", "name": "large", "namespace": %q}}`, s.Driver, s.Name))
	s.claimParameters("two", fmt.Sprintf(`{"driverRequests": [
		{"driverName": %q, "vendorParameters": {"of": "claim"}, "requests": [
			{"vendorParameters": {"of": "request"}, "namedResources": {"selector": "attributes.int['index'] != 1"}},
			{"namedResources": {"selector": "true"}}]},
		{"driverName": %q, "requests": [{"namedResources": {"selector": "true"}}]}]}`, s.Driver, nic))
	s.claimAndPod("user", class, fmt.Sprintf(direct, "two"))
	s.Running("user")
	require.JSONEq(t, fmt.Sprintf(`{
		"driverName": %[1]q,
		"reservedFor": [{"resource": "pods", "name": "user", "uid": %[4]q}],
		"allocation": {
			"availableOnNodes": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [%[3]q]}]}]},
			"resourceHandles": [
				{"driverName": %[1]q, "structuredData": {"nodeName": %[3]q,
					"vendorClassParameters": {"of": "class <b>"}, "vendorClaimParameters": {"of": "claim"}, "results": [
						{"vendorRequestParameters": {"of": "request"}, "namedResources": {"name": "gpu-2"}},
						{"vendorRequestParameters": null, "namedResources": {"name": "gpu-1"}}]}},
				{"driverName": %[2]q, "structuredData": {"nodeName": %[3]q,
					"vendorClassParameters": null, "vendorClaimParameters": null, "results": [
						{"vendorRequestParameters": null, "namedResources": {"name": "eth-0"}}]}}]}}`,
		s.Driver, nic, s.Node(0), s.LivePod("user").UID), s.stored("user"))
}

// The scheduler of 1.30 writes claims by patches. What it allocates is in use, and what is
// allocated here can get more consumers from it, however the vendor has written parameters.
func TestV1alpha2OtherScheduler(t *testing.T) {
	t.Parallel()
	s := newAlpha2(t, "others", 1)
	s.Devices(0, harness.Numbered(3)...)
	patch := func(claim, status string) {
		_, err := s.untyped("resourceclaims").Patch(t.Context(), claim, types.StrategicMergePatchType, []byte(`{"status": {`+status+`}}`), metav1.PatchOptions{}, "status")
		require.NoError(t, err)
	}
	parameters := fmt.Sprintf(`{"apiVersion": "resource.k8s.io/v1alpha2", "kind": "ResourceClaimParameters", "metadata": {"name": "odd"}, "shareable": true,
		"driverRequests": [{"driverName": %q, "vendorParameters": { "z": 1.50,  "a": "<b>" }, "requests": [{"namedResources": {"selector": "true"}}]}]}`, s.Driver)
	require.NoError(t, s.Cluster.Client.CoreV1().RESTClient().Post().AbsPath("/apis", v1alpha2.GroupVersion.String(), "namespaces", s.Name, "resourceclaimparameters").
		SetHeader("Content-Type", runtime.ContentTypeJSON).Body([]byte(parameters)).Do(t.Context()).Error())
	s.claimAndPod("ours", s.Name, fmt.Sprintf(direct, "odd"))
	s.Running("ours")
	other := s.Pod("other", builder.Uses("ours"))
	other.Spec.SchedulerName = "another"
	s.Create(other)
	patch("ours", fmt.Sprintf(`"reservedFor": [{"resource": "pods", "name": "other", "uid": %q}]`, s.LivePod("other").UID))
	s.DeletePod("other")

	put[v1alpha2.ResourceClaim](s, "resourceclaims", "theirs", fmt.Sprintf(`{"spec": {"resourceClassName": %q}}`, s.Name))
	s.Protect("theirs")
	patch("theirs", fmt.Sprintf(`"driverName": %[1]q, "allocation": {"shareable": true,
		"availableOnNodes": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [%[2]q]}]}]},
		"resourceHandles": [{"driverName": %[1]q, "structuredData": {"nodeName": %[2]q, "vendorClassParameters": null, "vendorClaimParameters": {"z": 1.50, "a": "<b>"},
			"results": [{"vendorRequestParameters": null, "namedResources": {"name": "gpu-1"}}]}}]}`, s.Driver, s.Node(0)))
	s.Create(s.Pod("user", builder.Uses("theirs")))
	s.Running("user")
	s.claimAndPod("last", s.Name, "")
	s.Running("last")
	require.Equal(t, []string{s.Node(0) + "/gpu-2"}, s.DeviceNames("last"))
	s.claimAndPod("one-too-many", s.Name, "")
	s.Waiting("one-too-many", "3 held by other claims")
}

// A node has the devices of all slices of a driver, which come and go. As long as two of
// them have the same device, nobody knows what that is, and the node has none.
func TestV1alpha2Slices(t *testing.T) {
	t.Parallel()
	s := newAlpha2(t, "slices", 1)
	slice := func(name string, devices ...string) {
		var instances []string
		for _, device := range devices {
			instances = append(instances, fmt.Sprintf(`{"name": %q}`, device))
		}
		s.slice(s.Name+"-"+name, fmt.Sprintf(`{"nodeName": %q, "driverName": %q, "namedResources": {"instances": [%s]}}`, s.Node(0), s.Driver, strings.Join(instances, ",")))
	}
	s.claimParameters("two", fmt.Sprintf(`{"driverRequests": [{"driverName": %q, "requests": [
		{"namedResources": {"selector": "true"}}, {"namedResources": {"selector": "true"}}]}]}`, s.Driver))
	s.claimAndPod("user", s.Name, fmt.Sprintf(direct, "two"))
	s.Waiting("user", "the node has no devices")
	slice("a", "gpu-0")
	s.Waiting("user", "want 2 devices of class "+s.Name+" together; 1 matches")
	slice("b", "gpu-0", "gpu-1")
	s.Waiting("user", "the node's resource pool of driver "+s.Driver+" is left out as invalid (device name gpu-0 is not unique)")
	require.NoError(t, s.Cluster.Client.ResourceV1().ResourceSlices().Delete(t.Context(), s.Name+"-b", metav1.DeleteOptions{}))
	slice("c", "gpu-1")
	s.RunningSoon("user")
	require.ElementsMatch(t, []string{s.Node(0) + "/gpu-0", s.Node(0) + "/gpu-1"}, s.DeviceNames("user"))
}

// Devices can be told apart by attributes of each kind.
func TestV1alpha2Attributes(t *testing.T) {
	t.Parallel()
	s := newAlpha2(t, "attributes", 1)
	kinds := []struct{ name, value, expression string }{
		{"quantity", `"quantity": "20Gi"`, `attributes.quantity["x"].isGreaterThan(quantity("10Gi"))`},
		{"bool", `"bool": true`, `attributes.bool["x"]`},
		{"int", `"int": 7`, `attributes.int["x"] == 7`},
		{"intslice", `"intSlice": {"ints": [1, 2]}`, `2 in attributes.intslice["x"]`},
		{"string", `"string": "a"`, `attributes.string["x"].startsWith("a")`},
		{"stringslice", `"stringSlice": {"strings": ["a", "b"]}`, `attributes.stringslice["x"].exists(s, s == "b")`},
		{"version", `"version": "1.2.3"`, `attributes.version["x"].isLessThan(semver("1.10.0"))`},
	}
	instances := `, {"name": "spare"}` // It has none of them, and stays free.
	for i, kind := range kinds {
		instances += fmt.Sprintf(`, {"name": "device-%d", "attributes": [{"name": "x", %s}]}`, i, kind.value)
	}
	s.slice(s.Name, fmt.Sprintf(`{"nodeName": %q, "driverName": %q, "namedResources": {"instances": [%s]}}`, s.Node(0), s.Driver, instances[1:]))
	for i, kind := range kinds {
		name := fmt.Sprintf("user-%d", i)
		selector, err := json.Marshal(`"x" in attributes.` + kind.name + ` && ` + kind.expression)
		require.NoError(t, err)
		s.claimParameters(name, fmt.Sprintf(`{"driverRequests": [{"driverName": %q, "requests": [{"namedResources": {"selector": %s}}]}]}`, s.Driver, selector))
		s.claimAndPod(name, s.Name, fmt.Sprintf(direct, name))
	}
	for i := range kinds {
		name := fmt.Sprintf("user-%d", i)
		s.Running(name)
		require.Equal(t, []string{fmt.Sprintf("%s/device-%d", s.Node(0), i)}, s.DeviceNames(name))
	}
	// An expression that fails on a device has a reason.
	s.claimParameters("odd", fmt.Sprintf(`{"driverRequests": [{"driverName": %q, "requests": [{"namedResources": {"selector": "attributes.int[\"y\"] == 1"}}]}]}`, s.Driver))
	s.claimAndPod("odd", s.Name, fmt.Sprintf(direct, "odd"))
	s.Waiting("odd", "claim "+s.Name+"/odd request "+s.Driver+"-0", "no such key: y")
}

// Pods wait for parameters that controllers generate, and for those that are of use.
func TestV1alpha2Parameters(t *testing.T) {
	t.Parallel()
	s := newAlpha2(t, "parameters", 1)
	s.Devices(0, harness.Numbered(1)...)
	class := s.Name + "-late"
	s.claimAndPod("user", class, fmt.Sprintf(vendor, "GPU", "mine"))
	s.Waiting("user", class+" does not exist")
	s.class(class, fmt.Sprintf(`{"driverName": %q, "structuredParameters": true, "parametersRef":
		{"apiGroup": "gpu.example.com", "kind": "GPUClass", "name": "ours", "namespace": %q}}`, s.Driver, s.Name))
	s.Waiting("user", "claim "+s.Name+"/user: class parameters for GPUClass.gpu.example.com "+s.Name+"/ours", "do not exist")
	s.classParameters("generated", fmt.Sprintf(`{"generatedFrom": {"apiGroup": "gpu.example.com", "kind": "GPUClass", "name": "ours", "namespace": %q}}`, s.Name))
	s.Waiting("user", "claim "+s.Name+"/user: claim parameters for GPU.gpu.example.com mine do not exist in namespace "+s.Name)
	s.claimParameters("generated", fmt.Sprintf(`{"generatedFrom": {"apiGroup": "gpu.example.com", "kind": "GPU", "name": "mine"},
		"driverRequests": [{"driverName": %q, "requests": [{"namedResources": {"selector": "attributes.int['index'] == 7"}}]}]}`, s.Driver))
	s.Waiting("user", "claim "+s.Name+"/user request "+s.Driver+"-0")
	parameters := s.untyped("resourceclaimparameters")
	s.Eventually("change the parameters", func(ctx context.Context) error {
		object, err := parameters.Get(ctx, "generated", metav1.GetOptions{})
		if err != nil {
			return err
		}
		object.Object["driverRequests"] = []any{map[string]any{"driverName": s.Driver, "requests": []any{
			map[string]any{"namedResources": map[string]any{"selector": "attributes.int['index'] == 0"}}}}}
		_, err = parameters.Update(ctx, object, metav1.UpdateOptions{})
		return err
	})
	s.RunningSoon("user")
}

// Without parameters, a claim is for one device of the driver of the class, and can be
// shared by as many pods as this version permits.
func TestV1alpha2Defaults(t *testing.T) {
	t.Parallel()
	s := newAlpha2(t, "defaults", 1)
	s.Devices(0, harness.Numbered(2)...)
	s.claimAndPod("shared", s.Name, "")
	s.Running("shared")
	require.Len(t, s.Results("shared"), 1)
	var users []string
	for i := 1; i < v1alpha2.MaxConsumers; i++ {
		users = append(users, fmt.Sprintf("user-%02d", i))
		s.Create(s.Pod(users[len(users)-1], builder.Uses("shared")))
	}
	s.Running(users...)
	s.Create(s.Pod("too-many", builder.Uses("shared")))
	s.Waiting("too-many", "claim "+s.Name+"/shared is reserved for 32 pods (the limit)")
	s.DeletePod(users[0])
	s.RunningSoon("too-many")
}

func TestV1alpha2NotShareable(t *testing.T) {
	t.Parallel()
	s := newAlpha2(t, "exclusive", 1)
	s.Devices(0, harness.Numbered(2)...)
	s.claimParameters("one", fmt.Sprintf(`{"driverRequests": [{"driverName": %q, "requests": [{"namedResources": {"selector": "true"}}]}]}`, s.Driver))
	s.claimAndPod("first", s.Name, fmt.Sprintf(direct, "one"))
	s.Running("first")
	s.Create(s.Pod("second", builder.Uses("first")))
	s.Waiting("second", "claim "+s.Name+"/first is reserved for 1 pods (the limit)")
	s.DeletePod("first")
	s.RunningSoon("second")
}

// The nodes of a class are for claims that are not allocated yet.
func TestV1alpha2SuitableNodes(t *testing.T) {
	t.Parallel()
	s := newAlpha2(t, "suitable", 2)
	s.Devices(0, harness.Numbered(2)...)
	s.Devices(1, harness.Numbered(2)...)
	s.LabelNode(1, "example.com/gpus", s.Name)
	class := s.Name + "-labelled"
	s.class(class, fmt.Sprintf(`{"driverName": %q, "structuredParameters": true, "suitableNodes": {"nodeSelectorTerms": [{"matchExpressions":
		[{"key": "example.com/gpus", "operator": "In", "values": [%q]}]}]}}`, s.Driver, s.Name))
	s.claimAndPod("anywhere", class, "")
	s.Running("anywhere")
	require.Equal(t, s.Node(1), s.LivePod("anywhere").Spec.NodeName)
	put[v1alpha2.ResourceClaim](s, "resourceclaims", "elsewhere", fmt.Sprintf(`{"spec": {"resourceClassName": %q}}`, class))
	s.Create(s.PodOnNode("elsewhere", 0, builder.Uses("elsewhere")))
	s.Waiting("elsewhere", "claim "+s.Name+"/elsewhere: the node is not among the suitableNodes of its class")
	s.LabelNode(0, "example.com/gpus", s.Name)
	s.RunningSoon("elsewhere")
}

// Nobody uses these claims. One is allocated where its pod cannot run, and moves; of the
// other somebody wants the deallocation, so that it is allocated anew for its pod.
func TestV1alpha2Deallocation(t *testing.T) {
	t.Parallel()
	s := newAlpha2(t, "moves", 2)
	s.Devices(0, harness.Numbered(2)...)
	s.Devices(1, harness.Numbered(1)...)
	allocate := func(claim, device string) {
		put[v1alpha2.ResourceClaim](s, "resourceclaims", claim, fmt.Sprintf(`{"spec": {"resourceClassName": %q}}`, s.Name))
		s.Protect(claim)
		s.UpdateClaimStatus(claim, func(c *resourceapi.ResourceClaim) {
			resolved, err := api.ResolverOf(s.Cluster.Client).Resolve(c)
			require.NoError(t, err)
			c.Status.Allocation = &resourceapi.AllocationResult{NodeSelector: builder.NodeSelector("kubernetes.io/hostname", s.Node(0))}
			c.Status.Allocation.Devices.Results = []resourceapi.DeviceRequestAllocationResult{
				{Request: s.Driver + "-0", Driver: s.Driver, Pool: s.Node(0), Device: device},
			}
			c.Status.Allocation.Devices.Config = []resourceapi.DeviceAllocationConfiguration{{
				Source: resourceapi.AllocationConfigSourceClaim, DeviceConfiguration: resolved.Spec.Devices.Config[0].DeviceConfiguration,
			}}
		})
	}
	allocate("stuck", "gpu-0")
	s.Create(s.PodOnNode("elsewhere", 1, builder.Uses("stuck")))
	s.RunningSoon("elsewhere")
	require.Equal(t, []string{s.Node(1) + "/gpu-0"}, s.DeviceNames("elsewhere"))

	allocate("unwanted", "gpu-1")
	_, err := s.untyped("resourceclaims").Patch(t.Context(), "unwanted", types.MergePatchType, []byte(`{"status": {"deallocationRequested": true}}`), metav1.PatchOptions{}, "status")
	require.NoError(t, err)
	s.Create(s.PodOnNode("user", 0, builder.Uses("unwanted")))
	s.RunningSoon("user")
	require.Equal(t, []string{s.Node(0) + "/gpu-0"}, s.DeviceNames("user"))
	require.NotContains(t, s.stored("unwanted"), "deallocationRequested")
}

// A claim can have more devices than one of v1.
func TestV1alpha2ManyDevices(t *testing.T) {
	t.Parallel()
	const count = 40
	s := newAlpha2(t, "many", 1)
	s.Devices(0, harness.Numbered(count)...)
	request := `{"namedResources": {"selector": "true"}}`
	s.claimParameters("all", fmt.Sprintf(`{"driverRequests": [{"driverName": %q, "requests": [%s]}]}`, s.Driver, request+strings.Repeat(", "+request, count-1)))
	s.claimAndPod("user", s.Name, fmt.Sprintf(direct, "all"))
	s.Running("user")
	require.Len(t, s.Results("user"), count)
	s.DeletePod("user")
	s.EventuallyFree("user") // What is checked at the end is the limit of v1.
}
