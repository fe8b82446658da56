package skew

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/controlplane"
	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/scheduler"
)

// schedulers start a scheduler that reads claims through a forgetful proxy, for the pods of a space.
var schedulers = map[string]func(*harness.Space, func(claim object)){
	"ours":           startOurs,
	"kube-scheduler": startStock,
}

// TestUnknownFields: the scheduler does not know fields of claims that the server has, as after an upgrade of the server.
// What it does then is what kube-scheduler does: its writes would take these fields away, and the server refuses them. So pods
// wait, and nothing is lost, with one exception (unknownInSpec).
func TestUnknownFields(t *testing.T) {
	c := startCluster(t, "unknown-fields", controlplane.Options{})
	for name, start := range schedulers {
		t.Run(name, func(t *testing.T) {
			t.Run("spec", func(t *testing.T) { unknownInSpec(t, c, name, start) })
			t.Run("allocation", func(t *testing.T) { unknownInAllocation(t, c, name, start) })
			t.Run("device", func(t *testing.T) { unknownInDevice(t, c, name, start) })
		})
	}
}

// unknownInSpec: a claim that asks for more than the scheduler understands is not allocated. The scheduler protects it by a
// finalizer before, in a write that leaves out what it does not know, and the server stores no other spec. If a claim has the
// finalizer from the start, there is no such write, and it is allocated as if it asked for nothing more.
func unknownInSpec(t *testing.T, c *harness.Cluster, name string, start func(*harness.Space, func(object))) {
	s := c.NewSpace(t, "spec-"+name, "", 1)
	s.Devices(0, harness.Numbered(2)...)
	start(s, func(claim object) {
		for _, request := range list(claim, "spec", "devices", "requests") {
			delete(request.(object)["exactly"].(object), "selectors")
		}
	})
	s.ClaimAndPod("plain", s.Want(1))
	s.Running("plain")
	s.ClaimAndPod("special", s.Want(1, s.Attribute("index")+" == 7"))
	s.Eventually("see the server refuse to store the claim without what the scheduler does not know", func(ctx context.Context) error {
		events, err := c.Client.EventsV1().Events(s.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Regarding.Name == "special" && event.Reason == "FailedScheduling" {
				require.Contains(t, event.Note, "field is immutable")
				return nil
			}
		}
		return errors.New("the pod has no such event")
	})
	require.Nil(t, s.LiveClaim("special").Status.Allocation)
	s.Create(builder.Claim("protected", s.Want(1, s.Attribute("index")+" == 7")).Obj())
	s.Protect("protected")
	s.Create(s.Pod("protected", builder.Uses("protected")))
	s.Running("protected")
	s.DeletePod("special")
	s.Gone("special")
}

// unknownInAllocation: a claim was allocated by a scheduler that knows more, and no pod is added to its consumers.
func unknownInAllocation(t *testing.T, c *harness.Cluster, name string, start func(*harness.Space, func(object))) {
	s := c.NewSpace(t, "allocation-"+name, "", 1)
	s.Devices(0, harness.Numbered(1)...)
	start(s, func(claim object) {
		for _, result := range list(claim, "status", "allocation", "devices", "results") {
			delete(result.(object), "tolerations")
		}
	})
	s.Create(builder.Claim("theirs", s.Want(1).Tolerate("example.com/hot")).Obj())
	s.Protect("theirs")
	tolerations := []resourceapi.DeviceToleration{builder.Toleration("example.com/hot")}
	s.UpdateClaimStatus("theirs", func(claim *resourceapi.ResourceClaim) {
		claim.Status.Allocation = &resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
				{Request: s.RequestName(), Driver: s.Driver, Pool: s.Node(0), Device: "gpu-0", Tolerations: tolerations},
			}},
			NodeSelector: builder.NodeSelector(corev1.LabelHostname, s.Node(0)),
		}
	})
	s.Create(s.Pod("pod", builder.Uses("theirs")))
	s.Waiting("pod", "status.allocation: Invalid value: null: field cannot be modified once set")
	require.Equal(t, tolerations, s.LiveClaim("theirs").Status.Allocation.Devices.Results[0].Tolerations)
	s.DeletePod("pod")
	s.Gone("pod")
	s.UpdateClaimStatus("theirs", func(claim *resourceapi.ResourceClaim) { claim.Status.Allocation = nil })
}

// unknownInDevice: a driver has said more about the device of a claim than the scheduler knows. Pods that have the claim go on,
// and no pod is added. (From Kubernetes 1.36 on: older servers would lose what the driver has said.)
func unknownInDevice(t *testing.T, c *harness.Cluster, name string, start func(*harness.Space, func(object))) {
	s := c.NewSpace(t, "device-"+name, "", 1)
	s.Devices(0, harness.Numbered(1)...)
	start(s, func(claim object) {
		for _, device := range list(claim, "status", "devices") {
			delete(device.(object), "networkData")
		}
	})
	s.Create(builder.Claim("shared", s.Want(1)).Obj(), s.Pod("first", builder.Uses("shared")))
	s.Running("first")
	said := &resourceapi.NetworkDeviceData{InterfaceName: "eth7"}
	s.UpdateClaimStatus("shared", func(claim *resourceapi.ResourceClaim) {
		result := claim.Status.Allocation.Devices.Results[0]
		claim.Status.Devices = []resourceapi.AllocatedDeviceStatus{
			{Driver: result.Driver, Pool: result.Pool, Device: result.Device, NetworkData: said},
		}
	})
	s.Create(s.Pod("second", builder.Uses("shared")))
	s.Waiting("second", "changing status.devices requires")
	s.Running("first")
	require.Equal(t, said, s.LiveClaim("shared").Status.Devices[0].NetworkData)
	s.DeletePod("second")
	s.DeletePod("first")
	s.Gone("second")
	s.Gone("first")
	s.EventuallyFree("shared")
}

// list is the list at some path in an object, nil if there is none.
func list(in object, path ...string) []any {
	for _, field := range path[:len(path)-1] {
		in, _ = in[field].(object)
	}
	found, _ := in[path[len(path)-1]].([]any)
	return found
}

// readsJSON has a scheduler ask for JSON, which the proxy can read.
func readsJSON(config map[string]any) {
	connection, _ := config["clientConnection"].(map[string]any)
	if connection == nil {
		connection = make(map[string]any)
		config["clientConnection"] = connection
	}
	connection["contentType"], connection["acceptContentTypes"] = "application/json", "application/json"
}

func startOurs(s *harness.Space, forget func(object)) {
	s.T.Helper()
	address, certificate := startForgetful(s.T, s.Cluster, forget)
	kubeconfig, err := s.Cluster.KubeconfigVia(s.Name, address, certificate)
	require.NoError(s.T, err)
	s.StartScheduler(harness.SchedulerOptions{Kubeconfig: kubeconfig, Change: readsJSON})
}

func startStock(s *harness.Space, forget func(object)) {
	s.T.Helper()
	address, certificate := startForgetful(s.T, s.Cluster, forget)
	kubeconfig, err := s.Cluster.KubeconfigVia(s.Name, address, certificate)
	require.NoError(s.T, err)
	config := map[string]any{
		"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
		"profiles": []any{map[string]any{"schedulerName": s.Profile}},
	}
	readsJSON(config)
	text, err := yaml.Marshal(config)
	require.NoError(s.T, err)
	alone := false
	process, err := s.Cluster.StartProcess(s.T.Context(), "kube-scheduler", scheduler.Options{
		Config: text, Kubeconfig: kubeconfig, LeaderElection: &alone, LogFile: fmt.Sprintf("%s/scheduler-%s.log", s.Cluster.Logs, s.Name),
	})
	require.NoError(s.T, err)
	s.T.Cleanup(func() { require.NoError(s.T, process.Stop()) })
}
