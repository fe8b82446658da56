package kubectl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// rack has four nodes with four GPUs each in two NUMA nodes, some of them in use, and waiting pods.
func rack() whatif.Objects {
	o := whatif.Objects{
		Classes: []*resourceapi.DeviceClass{b.DriverClass(b.Driver)},
		Templates: []*resourceapi.ResourceClaimTemplate{
			b.Claim("pair", b.Request("gpu", b.Driver).Count(2)).Match(b.Driver + "/numa").Template(),
			b.Claim("best", b.FirstAvailable("gpu", b.Request("four", b.Driver).Count(4), b.Request("one", b.Driver))).Template(),
		},
	}
	for _, name := range []string{"node-1", "node-2", "node-3", "node-4"} {
		node := b.Node(name)
		node.Status.Allocatable = b.Resources("cpu", "8", "memory", "32Gi", "pods", "20")
		node.Spec.Unschedulable = name == "node-4"
		o.Nodes = append(o.Nodes, node)
		devices := b.NumberedDevices("gpu", 4)
		for i, device := range devices {
			device.Attr("numa", i/2)
		}
		o.Slices = append(o.Slices, b.NodeSlice(name, devices...).Obj())
	}
	for _, held := range []struct{ name, node, devices string }{
		{"low-a", "node-1", "gpu-0"}, {"low-b", "node-1", "gpu-2 gpu-3"}, {"low-c", "node-2", "gpu-1"}, {"low-d", "node-2", "gpu-3"},
		{"low-e", "node-3", "gpu-0 gpu-1"}, {"low-f", "node-3", "gpu-2"},
	} {
		devices := strings.Fields(held.devices)
		claim := b.Claim(held.name, b.Request("gpu", b.Driver).Count(int64(len(devices))))
		holding(&o, held.name, held.node, claim.Allocated(held.node, devices...), time.Hour)
	}
	waits := b.Pod("waits", b.Using(b.FromTemplate("pair")...))
	waits.Spec.Priority = ptr.To(int32(100))
	waits.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Message: "0/4 nodes are available."}}
	o.Pods = append(o.Pods, waits, b.Pod("lost", b.Using(b.Uses("nothing")...)))
	return o
}

// file writes a manifest.
func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "manifest.yaml")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

const (
	pairs = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: pairs}
spec:
  replicas: 2
  selector: {matchLabels: {app: pairs}}
  template:
    metadata: {labels: {app: pairs}}
    spec:
      resourceClaims: [{name: gpu, resourceClaimTemplateName: pair}]
      containers: [{name: main, image: i, ports: [{containerPort: 1, hostPort: 1}]}]
`
	three = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: three}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com, count: 3}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: three}
spec:
  resourceClaims: [{name: gpu, resourceClaimTemplateName: three}]
  containers: [{name: main, image: i}]
`
	bought = `
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: bought}
  status: {allocatable: {cpu: "8", pods: "20"}}
- apiVersion: resource.k8s.io/v1
  kind: ResourceSlice
  spec:
    driver: gpu.example.com
    nodeName: bought
    pool: {name: bought, generation: 1, resourceSliceCount: 1}
    devices:
    - {name: a, attributes: {numa: {int: 0}}}
    - {name: b, attributes: {numa: {int: 0}}}
`
)

const (
	claimOfTwo = `
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {name: two}
spec: {devices: {requests: [{name: gpu, deviceClassName: gpu.example.com, count: 2}], constraints: [{matchAttribute: gpu.example.com/numa}]}}
`
	// lowD is there already: its claim has a device, and would not be given another number of them.
	lowD = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: low-d}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com, count: 40}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: low-d}
spec:
  nodeSelector: {kubernetes.io/hostname: node-2}
  resourceClaims: [{name: gpu, resourceClaimName: low-d}]
  containers: [{name: main, image: i}]
---
apiVersion: v1
kind: Service
metadata: {name: low}
`
)

// TestQuestions compares what the commands print that answer questions, and their exit status.
func TestQuestions(t *testing.T) {
	pairs, three, bought := file(t, pairs), file(t, three), file(t, bought)
	claim, existing := file(t, claimOfTwo), file(t, lowD)
	for name, test := range map[string]struct {
		args   string
		status int
	}{
		"explain-waiting":     {"explain waits", 0},
		"explain-problem":     {"explain pod/default/lost", 0},
		"explain-running":     {"explain low-b", 0},
		"explain-claim":       {"explain claim/low-a", 0},
		"explain-json":        {"explain waits -o json", 0},
		"fit-no":              {"fit -f " + pairs, ExitNo},
		"fit-with":            {"fit -f " + pairs + " --replicas 1 --with " + bought, 0},
		"fit-without":         {"fit -f " + pairs + " --replicas 1 --without pod/low-a", 0},
		"fit-without-node":    {"fit -f " + pairs + " --without node/node-1 --without claim/default/low-c", ExitNo},
		"fit-json":            {"fit -f " + pairs + " -o json", ExitNo},
		"fit-yaml":            {"fit -f " + pairs + " --replicas 1 --without pod/low-a -o yaml", 0},
		"fit-claim":           {"fit -f " + claim + " --replicas 3 --with " + bought + " --with-copies 2", ExitNo},
		"fit-existing":        {"fit -f " + existing, 0},
		"fragmentation":       {"fragmentation", 0},
		"fragmentation-moves": {"frag -f " + three, 0},
		"fragmentation-json":  {"fragmentation -f " + three + " -o json", 0},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := run(t, rack(), strings.Fields(test.args)...)
			status, said := StatusOf(err)
			require.Equal(t, test.status, status, said)
			golden(t, name, text)
		})
	}
}

// TestFiles asks for files as users of drivers publish them: many have mistakes that an API server would refuse.
func TestFiles(t *testing.T) {
	for name, status := range map[string]int{
		"shares": ExitNo, "cpus": ExitNo, "podgroups": ExitNo, "lws": ExitNo, "jobset": ExitNo, "v1beta1": 0,
		"lowercase": ExitCannotTell, "lowercase-template": ExitCannotTell, "other-namespace": ExitCannotTell, "v1alpha2": ExitCannotTell,
		"double-spec": ExitCannotTell, "match-list": ExitCannotTell, "monitor-no-operator": ExitCannotTell, "monitor-labelled": 0, "monitor-unlabelled": ExitCannotTell,
		"computedomain": ExitCannotTell, "wrong-request": ExitCannotTell, "wrong-request-of-container": ExitCannotTell, "unknown-kind": ExitCannotTell,
	} {
		t.Run(name, func(t *testing.T) {
			work, cluster := filepath.Join("testdata", "files", name+".yaml"), filepath.Join("testdata", "files", "intel-cluster.yaml")
			if _, err := os.Stat(work); err != nil {
				work, cluster = filepath.Join("testdata", "files", name+"-work.yaml"), filepath.Join("testdata", "files", name+"-cluster.yaml")
			}
			text, err := run(t, whatif.Objects{}, "fit", "-f", work, "--with", cluster)
			got, said := StatusOf(err)
			golden(t, "file-"+name, text+said)
			require.Equal(t, status, got, said)
		})
	}
}

// TestBadQuestions: errors say what is wrong, and how to fix it.
func TestBadQuestions(t *testing.T) {
	for name, test := range map[string]struct{ args, want string }{
		"no such pod":     {"explain nobody", "there is no pod default/nobody and no claim of that name"},
		"no file":         {"fit", "name the file with the pods: kubectl devices fit -f FILE"},
		"file is missing": {"fit -f nowhere.yaml", "open the file: open nowhere.yaml"},
		"no pods":         {"fit -f " + file(t, bought), "has no pods"},
		"other kind":      {"fit -f " + file(t, "kind: Service\napiVersion: v1\nmetadata: {name: x}"), "has no pods"},
		"no YAML":         {"fit -f " + file(t, "a: [b"), "manifest.yaml"},
		"without what":    {"fit -f " + file(t, pairs) + " --without low-a", "write claim/NAME, pod/NAME or node/NAME"},
		"without nobody":  {"fit -f " + file(t, pairs) + " --without pod/nobody", "there is no pod default/nobody to leave out"},
		"two pods":        {"fragmentation -f " + file(t, three+"---"+three), "has 2 pods"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := run(t, rack(), strings.Fields(test.args)...)
			status, said := StatusOf(err)
			assert.Equal(t, ExitCannotTell, status)
			assert.Contains(t, said, test.want)
		})
	}
}

// TestCannotTell: what could not be read makes a "no" uncertain.
func TestCannotTell(t *testing.T) {
	o := rack()
	o.Missing = []whatif.Missing{{Resource: "nodes", Why: "the right to list nodes is missing"}}
	text, err := run(t, o, "fit", "-f", file(t, three))
	status, _ := StatusOf(err)
	assert.Equal(t, ExitCannotTell, status)
	assert.Contains(t, text, "This may be wrong: nodes could not be read")
}
