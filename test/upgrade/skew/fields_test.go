package skew

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
	"github.com/quartermaster-dra/quartermaster/internal/playground/schedulerproc"
	"github.com/quartermaster-dra/quartermaster/test/controlplane"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// schedulers start a scheduler that reads claims through a forgetful proxy, for the pods of a space.
var schedulers = map[string]func(*harness.Space, func(claim object)){
	"ours":           startOurs,
	"kube-scheduler": startStock,
}

// TestUnknownFields: the scheduler does not know fields of claims that the server has, as after an upgrade of the server.
// What it does then is what kube-scheduler does.
func TestUnknownFields(t *testing.T) {
	c := startCluster(t, "unknown-fields", controlplane.Options{})
	for name, start := range schedulers {
		t.Run(name, func(t *testing.T) {
			t.Run("spec", func(t *testing.T) { unknownInSpec(t, c, name, start) })
			t.Run("status", func(t *testing.T) { unknownInStatus(t, c, name, start) })
		})
	}
}

// unknownInSpec: a claim that asks for more than the scheduler understands is not allocated. The scheduler protects it by a
// finalizer before, in a write that leaves out what it does not know, and the server stores no other spec.
func unknownInSpec(t *testing.T, c *harness.Cluster, name string, start func(*harness.Space, func(object))) {
	s := c.NewSpace(t, "spec-"+name, "", 1)
	s.Devices(0, harness.Numbered(2)...)
	start(s, func(claim object) { delete(exactly(claim), "selectors") })
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
	s.DeletePod("special")
	s.Gone("special")
}

// unknownInStatus: pods get their devices from a claim with fields in its status that the scheduler does not know. The next
// consumer that it reserves the claim for takes these fields away, as an update does.
func unknownInStatus(t *testing.T, c *harness.Cluster, name string, start func(*harness.Space, func(object))) {
	s := c.NewSpace(t, "status-"+name, "", 1)
	s.Devices(0, harness.Numbered(1)...)
	start(s, func(claim object) {
		status, _ := claim["status"].(object)
		devices, _ := status["devices"].([]any)
		for _, device := range devices {
			delete(device.(object), "networkData")
		}
	})
	s.Create(builder.Claim("shared", s.Want(1)).Obj(), s.Pod("first", builder.Uses("shared")))
	s.Running("first")
	s.UpdateClaimStatus("shared", func(claim *resourceapi.ResourceClaim) {
		result := claim.Status.Allocation.Devices.Results[0]
		claim.Status.Devices = []resourceapi.AllocatedDeviceStatus{{
			Driver: result.Driver, Pool: result.Pool, Device: result.Device,
			Conditions:  []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Up", LastTransitionTime: metav1.Now()}},
			NetworkData: &resourceapi.NetworkDeviceData{InterfaceName: "eth7"},
		}}
	})
	s.Create(s.Pod("second", builder.Uses("shared")))
	s.Running("first", "second")
	devices := s.LiveClaim("shared").Status.Devices
	require.Len(t, devices, 1)
	require.Equal(t, "Ready", devices[0].Conditions[0].Type, "what it knows stays")
	require.Nil(t, devices[0].NetworkData, "update the documents: a field that the scheduler does not know is not lost any more")
	s.DeletePod("first")
	s.DeletePod("second")
	s.Gone("first")
	s.Gone("second")
	s.EventuallyFree("shared")
}

// exactly is the first request of a claim.
func exactly(claim object) object {
	spec, _ := claim["spec"].(object)
	devices, _ := spec["devices"].(object)
	requests, _ := devices["requests"].([]any)
	if len(requests) == 0 {
		return nil
	}
	request, _ := requests[0].(object)["exactly"].(object)
	return request
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
	process, err := s.Cluster.StartProcess(s.T.Context(), "kube-scheduler", schedulerproc.Options{
		Config: text, Kubeconfig: kubeconfig, LeaderElection: &alone, LogFile: fmt.Sprintf("%s/scheduler-%s.log", s.Cluster.Logs, s.Name),
	})
	require.NoError(s.T, err)
	s.T.Cleanup(func() { require.NoError(s.T, process.Stop()) })
}
