package karpenter

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const (
	// binary is the executable in bin, and the module in tools.
	binary = "karpenter"
	// module is Karpenter's module, which that one pins.
	module = "sigs.k8s.io/karpenter"
	// zone is where all nodes are.
	zone = "zone-a"
)

// instanceType is a kind of node that Karpenter can add.
type instanceType struct {
	name          string
	cpus, devices int
	price         float64
}

// instanceTypes are all kinds, such that two devices on one node are cheaper than on two.
var instanceTypes = []instanceType{{"cpu-only", 4, 0, 0.1}, {"gpu-one", 8, 1, 1}, {"gpu-two", 16, 2, 1.5}}

// devices returns the devices of a node of a kind.
func devices(kind string) []*builder.DeviceBuilder {
	for _, each := range instanceTypes {
		if each.name == kind {
			return harness.Numbered(each.devices)
		}
	}
	return nil
}

// settings are the differences between a Karpenter and another one.
type settings struct {
	// claims has it look at claims, and know the devices of each kind of node. Otherwise, it knows a quantity of an extended resource.
	claims bool
}

// start installs Karpenter and runs it until the end of the test. Nothing else may at the same time.
func start(t *testing.T, s settings) {
	t.Helper()
	folder := harness.ModuleFolder(t, module, binary)
	for _, crds := range []string{"pkg/apis/crds", "kwok/apis/crds"} {
		cluster.ApplyDefinitions(t, filepath.Join(folder, crds), func(*unstructured.Unstructured) {})
	}
	cluster.Apply(t, harness.Decode(t, []byte(nodeClass))...)
	health, metrics := harness.FreeAddress(t), harness.FreeAddress(t)
	ended := cluster.RunBinary(t, binary, "karpenter.log", []string{
		"KUBECONFIG=" + cluster.ControlPlane.AdminKubeconfig(),
		"HEALTH_PROBE_PORT=" + strconv.Itoa(health.Port),
		"METRICS_PORT=" + strconv.Itoa(metrics.Port),
		"DISABLE_LEADER_ELECTION=true",
		"DISABLE_CLUSTER_STATE_OBSERVABILITY=true",
		"BATCH_IDLE_DURATION=200ms",
		"BATCH_MAX_DURATION=2s",
		"LOG_LEVEL=debug",
		"FEATURE_GATES=StaticCapacity=true",
		"IGNORE_DRA_REQUESTS=" + strconv.FormatBool(!s.claims),
		"INSTANCE_TYPES_FILE_PATH=" + writeJSON(t, "types.json", s.offers()),
		"DEVICES_FILE_PATH=" + writeJSON(t, "devices.json", s.published()),
	})
	cluster.AwaitReady(t, binary, "http://"+health.String()+"/readyz", ended)
}

// offers are the kinds of nodes in the form that Karpenter reads.
func (s settings) offers() (offers []any) {
	only := func(key, value string) map[string]any {
		return map[string]any{"key": key, "operator": corev1.NodeSelectorOpIn, "values": []string{value}}
	}
	for _, each := range instanceTypes {
		resources := map[string]string{"cpu": strconv.Itoa(each.cpus), "memory": fmt.Sprintf("%dGi", 4*each.cpus)}
		if !s.claims && each.devices > 0 {
			resources[extended] = strconv.Itoa(each.devices)
		}
		offers = append(offers, map[string]any{
			"name": each.name, "architecture": "amd64", "operatingSystems": []string{"linux"}, "resources": resources,
			"offerings": []any{map[string]any{
				"Price": each.price, "Available": true,
				"Requirements": []any{only(capacityType, onDemand), only(corev1.LabelTopologyZone, zone)},
			}},
		})
	}
	return offers
}

// published are the devices of each kind of node in the form that Karpenter reads.
func (s settings) published() map[string][]resourceapi.ResourceSliceSpec {
	published := make(map[string][]resourceapi.ResourceSliceSpec)
	for _, each := range instanceTypes {
		if s.claims && each.devices > 0 {
			published[each.name] = []resourceapi.ResourceSliceSpec{builder.Slice("node").Devices(devices(each.name)...).Obj().Spec}
		}
	}
	return published
}

// writeJSON writes a value to a file, and returns its path.
func writeJSON(t *testing.T, name string, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}
