package compat

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// What a driver has stored with an allocation stays as it is, to the letter: the server
// takes the allocation for changed otherwise, and refuses the reservation for ever.
func TestClassicParametersKeepTheirText(t *testing.T) {
	t.Parallel()
	onlyV1alpha3(t)
	s := newClassicSpace(t, "c-text", 1)
	d := newDriver(s, "one", places(1))
	d.halt()
	d.createClaim("gpu")
	s.Create(s.Pod("first", builder.Uses("gpu")))
	require.Equal(t, s.Node(0), d.asked("first").Spec.SelectedNode)

	client, err := kubernetes.NewForConfig(cluster.ControlPlane.AdminConfig())
	require.NoError(t, err)
	selector, err := json.Marshal(builder.NodeSelector(nodeKey, s.Node(0)))
	require.NoError(t, err)
	path := "/apis/resource.k8s.io/v1alpha3/namespaces/" + s.Name + "/resourceclaims/gpu"
	body := fmt.Sprintf(`{"apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourceClaim",
		"metadata": {"name": "gpu", "namespace": %q, "resourceVersion": %q},
		"status": {"allocation": {"controller": %[3]q, "nodeSelector": %[4]s, "devices": {
			"results": [{"request": "gpu", "driver": %[3]q, "pool": "pool", "device": "device"}],
			"config": [{"source": "FromClaim", "opaque": {"driver": %[3]q, "parameters": {"z": 1.50,  "a" : "<&>"}}}]}}}}`,
		s.Name, d.claim("gpu").GetResourceVersion(), d.name, selector)
	require.NoError(t, client.ResourceV1().RESTClient().Put().AbsPath(path, "status").
		SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(t.Context()).Error())
	s.RunningSoon("first")
	s.Create(s.Pod("second", builder.Uses("gpu")))
	s.Running("first", "second")

	stored, err := client.ResourceV1().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(t.Context())
	require.NoError(t, err)
	require.Contains(t, string(stored), `"parameters":{"z":1.50,"a":"\u003c\u0026\u003e"}`, "that is how the server shows it")
}
