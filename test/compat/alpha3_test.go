package compat

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha3"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// onlyV1alpha3 skips tests of what other versions do not have.
func onlyV1alpha3(t *testing.T) {
	t.Helper()
	if tested.claims != api.V1alpha3 {
		t.Skipf("this is about v1alpha3, and here claims are used in %s", tested.claims)
	}
}

// v1alpha3Of is a client for objects as the server has them.
func v1alpha3Of(t *testing.T, resource string) dynamic.NamespaceableResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(cluster.ControlPlane.AdminConfig())
	require.NoError(t, err)
	return client.Resource(v1alpha3.GroupVersion.WithResource(resource))
}

// The nodes that suit a class are of no concern to claims that the scheduler allocates.
func TestSuitableNodesAreForControllers(t *testing.T) {
	t.Parallel()
	onlyV1alpha3(t)
	s := newSpace(t, "suitable", 1)
	s.Devices(0, harness.Numbered(1)...)
	classes, picky := v1alpha3Of(t, "deviceclasses"), s.Name+"-picky"
	_, err := classes.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "resource.k8s.io/v1alpha3", "kind": "DeviceClass",
		"metadata": map[string]any{"name": picky},
		"spec": map[string]any{
			"selectors": []any{map[string]any{"cel": map[string]any{"expression": builder.OfDriver(s.Driver)}}},
			"suitableNodes": map[string]any{"nodeSelectorTerms": []any{map[string]any{"matchExpressions": []any{
				map[string]any{"key": "example.com/nobody", "operator": "Exists"},
			}}}},
		},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, classes.Delete(context.Background(), picky, metav1.DeleteOptions{})) })
	class, err := cluster.Client.ResourceV1().DeviceClasses().Get(t.Context(), picky, metav1.GetOptions{})
	require.NoError(t, err)
	require.NotNil(t, conversion.AlphaClassOf(class).SuitableNodes, "this has to be a server that keeps the field")

	s.ClaimAndPod("user", builder.Request("gpu", picky))
	s.Running("user")
	require.Equal(t, []string{s.Node(0) + "/gpu-0"}, s.DeviceNames("user"))
}

// A claim of which the deallocation was requested gets no new consumer: the pod that
// wants it gets other devices.
func TestDeallocationRequested(t *testing.T) {
	t.Parallel()
	onlyV1alpha3(t)
	s := newSpace(t, "requested", 1)
	s.Devices(0, harness.Numbered(2)...)
	s.Create(builder.Claim("old", s.Want(1)).Obj())
	s.Protect("old")
	s.UpdateClaimStatus("old", func(c *resourceapi.ResourceClaim) {
		c.Status.Allocation = &resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
				{Request: "gpu", Driver: s.Driver, Pool: s.Node(0), Device: "gpu-1"},
			}},
			NodeSelector: builder.NodeSelector("kubernetes.io/hostname", s.Node(0)),
		}
	})
	claims := v1alpha3Of(t, "resourceclaims").Namespace(s.Name)
	_, err := claims.Patch(t.Context(), "old", types.MergePatchType, []byte(`{"status":{"deallocationRequested":true}}`), metav1.PatchOptions{}, "status")
	require.NoError(t, err)
	require.True(t, conversion.AlphaClaimOf(s.LiveClaim("old")).DeallocationRequested, "this has to be a server that keeps the field")
	s.Create(s.Pod("user", builder.Uses("old")))
	s.RunningSoon("user")
	require.Equal(t, []string{s.Node(0) + "/gpu-0"}, s.DeviceNames("user"), "the first one, as for a claim that was never allocated")
	require.False(t, conversion.AlphaClaimOf(s.LiveClaim("old")).DeallocationRequested)
}

// v1alpha3 permits 32 consumers, and the next one hears of that.
func TestConsumerLimit(t *testing.T) {
	t.Parallel()
	onlyV1alpha3(t)
	s := newSpace(t, "limit", 1)
	s.Devices(0, harness.Numbered(1)...)
	s.Create(builder.Claim("shared", s.Want(1)).Obj())
	var consumers []string
	for i := range v1alpha3.MaxConsumers {
		name := fmt.Sprintf("user-%02d", i)
		consumers = append(consumers, name)
		s.Create(s.Pod(name, builder.Uses("shared")))
	}
	s.Running(consumers...)
	s.Create(s.Pod("late", builder.Uses("shared")))
	s.Waiting("late", "claim "+s.Name+"/shared is reserved for 32 pods (the limit)")
	s.DeletePod(consumers[7])
	s.RunningSoon("late")
	require.Len(t, s.LiveClaim("shared").Status.ReservedFor, v1alpha3.MaxConsumers)
}

// Administrative access takes nothing from others. In 1.31, nothing but the request says
// that a device was allocated for that.
func TestAdminAccess(t *testing.T) {
	t.Parallel()
	onlyV1alpha3(t)
	s := newSpace(t, "admin", 1)
	s.Devices(0, harness.Numbered(1)...)
	admin := s.WantAll().Admin()
	s.ClaimAndPod("monitor", admin)
	s.Running("monitor")
	s.ClaimAndPod("user", s.Want(1))
	s.Running("user")
	s.ClaimAndPod("another", admin)
	s.Running("another")
	s.ClaimAndPod("late", s.Want(1))
	s.Waiting("late", "claim "+s.Name+"/late request gpu")
}

// Parameters get to the driver as they were written, and the server takes them for
// unchanged whenever the claim is written.
func TestParametersStayAsTheyAre(t *testing.T) {
	t.Parallel()
	onlyV1alpha3(t)
	s := newSpace(t, "parameters", 1)
	s.Devices(0, harness.Numbered(1)...)
	const parameters = `{"z":1.50,"a":{"y":"<&>","b":10000000000000000001}}`
	s.Create(builder.Claim("shared", s.Want(1)).Config(s.Driver, parameters).Obj())
	s.Create(s.Pod("first", builder.Uses("shared")))
	s.Running("first")
	s.Create(s.Pod("second", builder.Uses("shared")))
	s.Running("first", "second")
	claim := s.LiveClaim("shared")
	require.Len(t, claim.Status.ReservedFor, 2)
	var want, got any
	require.NoError(t, json.Unmarshal([]byte(parameters), &want))
	raw := claim.Status.Allocation.Devices.Config[0].Opaque.Parameters.Raw
	require.NoError(t, json.Unmarshal(raw, &got))
	require.Equal(t, want, got)
	require.Contains(t, string(raw), `"z":1.50,"a":{"y":`, "the order and the text of numbers stay")
	require.Contains(t, string(raw), `"b":10000000000000000001`)
}

// Clients in other languages write parameters with white space, which the server keeps,
// but does not show in JSON. It takes the claim for changed if they come back without. That
// concerns what is asked for, and what another scheduler has allocated.
func TestParametersWithWhiteSpace(t *testing.T) {
	t.Parallel()
	onlyV1alpha3(t)
	s := newSpace(t, "spaces", 1)
	s.Devices(0, harness.Numbered(2)...)
	client, err := kubernetes.NewForConfig(cluster.ControlPlane.AdminConfig())
	require.NoError(t, err)
	opaque := fmt.Sprintf(`"opaque": {"driver": %q, "parameters": {"z": 1.50,  "a" : {"y": "<&>"}}}`, s.Driver)
	write := func(request *rest.Request, name, finalizers, status string) {
		body := fmt.Sprintf(`{"apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourceClaim", "metadata": {"name": %q, "finalizers": [%s]},
			"spec": {"devices": {"requests": [{"name": "gpu", "deviceClassName": %q}], "config": [{%s}]}}, "status": %s}`,
			name, finalizers, s.Name, opaque, status)
		require.NoError(t, request.SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(t.Context()).Error())
	}
	path := "/apis/resource.k8s.io/v1alpha3/namespaces/" + s.Name + "/resourceclaims"
	api := client.ResourceV1().RESTClient()
	write(api.Post().AbsPath(path), "ours", "", "{}")
	protection := fmt.Sprintf("%q", resourceapi.Finalizer)
	write(api.Post().AbsPath(path), "foreign", protection, "{}")
	write(api.Put().AbsPath(path, "foreign", "status"), "foreign", protection, fmt.Sprintf(`{"allocation": {"devices": {
		"results": [{"request": "gpu", "driver": %q, "pool": %q, "device": "gpu-1"}], "config": [{"source": "FromClaim", %s}]}}}`,
		s.Driver, s.Node(0), opaque))
	for _, claim := range []string{"ours", "foreign"} {
		for _, pod := range []string{claim + "-first", claim + "-second"} {
			s.Create(s.Pod(pod, builder.Uses(claim)))
			s.Running(pod)
		}
		require.Len(t, s.LiveClaim(claim).Status.ReservedFor, 2)
	}
}
