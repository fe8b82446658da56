package kubectl

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/kubectl/screen"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

var update = flag.Bool("update", false, "write the golden files anew")

// today is when all tests are.
var today = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// testOptions print into buffers, as on a terminal with 80 columns and without colours.
func testOptions(t *testing.T) (o *options, out, errOut *bytes.Buffer) {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	out, errOut = new(bytes.Buffer), new(bytes.Buffer)
	o = newOptions(genericiooptions.IOStreams{In: new(bytes.Buffer), Out: out, ErrOut: errOut})
	o.screen, o.now = screen.Screen{Width: 80}, func() time.Time { return today }
	return o, out, errOut
}

// run runs a command on a dump of objects, and returns what it prints, errors last.
func run(t *testing.T, objects whatif.Objects, args ...string) (string, error) {
	t.Helper()
	return runWith(t, objects, nil, args...)
}

// runWith is run with other options.
func runWith(t *testing.T, objects whatif.Objects, edit func(*options), args ...string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dump")
	f, err := os.Create(file)
	require.NoError(t, err)
	require.NoError(t, whatif.WriteDump(f, objects))
	require.NoError(t, f.Close())
	o, out, errOut := testOptions(t)
	if edit != nil {
		edit(o)
	}
	root := newRoot(o)
	root.SetArgs(append(args, "--from", file))
	err = root.ExecuteContext(t.Context())
	return out.String() + errOut.String(), err
}

// golden compares with a file in testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}

// holding makes a pod on a node with a claim.
func holding(o *whatif.Objects, name, node string, claim *resourceapi.ResourceClaim, ago time.Duration) {
	pod := b.Pod(name, b.Using(b.Uses(claim.Name)...), func(p *v1.Pod) {
		p.Namespace, p.Spec.NodeName, p.Status.Phase = claim.Namespace, node, v1.PodRunning
	})
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: pod.UID}}
	o.Claims, o.Pods = append(o.Claims, since(claim, ago)), append(o.Pods, pod)
}

// since says when a claim was allocated.
func since(claim *resourceapi.ResourceClaim, ago time.Duration) *resourceapi.ResourceClaim {
	claim.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: today.Add(-ago)}
	return claim
}

// shared makes a claim's allocation a share of its devices.
func shared(claim *resourceapi.ResourceClaim, amounts ...string) *resourceapi.ResourceClaim {
	for i := range claim.Status.Allocation.Devices.Results {
		result := &claim.Status.Allocation.Devices.Results[i]
		result.ShareID = ptr.To(types.UID("share-" + claim.Name))
		result.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{}
		for j := 0; j < len(amounts); j += 2 {
			result.ConsumedCapacity[resourceapi.QualifiedName(amounts[j])] = resource.MustParse(amounts[j+1])
		}
	}
	return claim
}

func of(claim *resourceapi.ResourceClaim, driver string) *resourceapi.ResourceClaim {
	for i := range claim.Status.Allocation.Devices.Results {
		claim.Status.Allocation.Devices.Results[i].Driver = driver
	}
	return claim
}

const nics = "nic.example.com"

// partitioned is a node with two GPUs that can be had as a whole or by halves.
func partitioned(node string) []*resourceapi.ResourceSlice {
	devices, counters := b.Slice(node).OnNode(node).InPool(node, 1, 2), b.Slice(node+"-counters").OnNode(node).InPool(node, 1, 2)
	for _, gpu := range []string{"gpu-0", "gpu-1"} {
		counters.Counters(gpu, "memory", "80Gi", "slices", "2")
		devices.Devices(b.Device(gpu).Attr("model", "H100").Consumes(gpu, "memory", "80Gi", "slices", "2"))
		for _, half := range []string{"a", "b"} {
			devices.Devices(b.Device(gpu+"-"+half).Attr("model", "H100-half").Consumes(gpu, "memory", "40Gi", "slices", "1"))
		}
	}
	return []*resourceapi.ResourceSlice{devices.Obj(), counters.Obj()}
}

// zoo has one of each kind.
func zoo() whatif.Objects {
	var o whatif.Objects
	gpu := func(i string) *b.DeviceBuilder {
		return b.Device("gpu-"+i).Attr("model", "A100").Attr("numa", 0).Capacity("memory", "40Gi")
	}
	for _, name := range []string{"node-1", "node-2", "node-3", "node-10"} {
		o.Nodes = append(o.Nodes, b.Node(name, "rack", "rack-"+name))
	}
	o.Classes = []*resourceapi.DeviceClass{b.DriverClass(b.Driver), b.DriverClass(nics), b.Class("halves", `device.attributes["gpu.example.com"].model == "H100-half"`)}
	o.Slices = append(o.Slices, b.NodeSlice("node-1", gpu("0"), gpu("1"), gpu("2").Taint("broken", resourceapi.DeviceTaintEffectNoSchedule), gpu("3")).Obj())
	o.Slices = append(o.Slices, partitioned("node-2")...)
	// Of two slices one is there; and two devices have the same name.
	o.Slices = append(o.Slices, b.NodeSlice("node-3", gpu("0"), gpu("1")).Part(0, 2).Obj(), b.NodeSlice("node-10", gpu("0"), gpu("0")).Obj())
	nic := func(i string) *b.DeviceBuilder { return b.Device("nic-"+i).Shared().Capacity("bandwidth", "100G") }
	o.Slices = append(o.Slices, b.Slice("fabric").OfDriver(nics).OnLabeled("rack", "rack-node-1").Devices(nic("0"), nic("1")).Obj())
	o.TaintRules = []*resourceapi.DeviceTaintRule{b.TaintRule("drain", b.Driver, "node-1", "gpu-0", "drain", resourceapi.DeviceTaintEffectNoExecute)}

	request := b.Request("gpu", b.Driver)
	holding(&o, "train", "node-1", b.Claim("train-gpu", request).Allocated("node-1", "gpu-0"), 3*time.Hour)
	holding(&o, "half", "node-2", b.Claim("half-gpu", request).In("research").Allocated("node-2", "gpu-0-a"), 26*time.Hour)
	holding(&o, "fast", "node-1", shared(of(b.Claim("fast-nic", b.Request("nic", nics)).Allocated("fabric", "nic-0"), nics), "bandwidth", "30G"), time.Minute)
	holding(&o, "slow", "node-1", shared(of(b.Claim("slow-nic", b.Request("nic", nics)).In("research").Allocated("fabric", "nic-0"), nics), "bandwidth", "10G"), time.Minute)
	admin := b.Claim("monitor", request).Allocated("node-1", "gpu-0", "gpu-1")
	for i := range admin.Status.Allocation.Devices.Results {
		admin.Status.Allocation.Devices.Results[i].AdminAccess = ptr.To(true)
	}
	holding(&o, "monitor", "node-1", admin, 100*24*time.Hour)
	o.Claims = append(o.Claims, b.Claim("waiting", request).Obj())
	return o
}

// broken has objects with each kind of problem.
func broken() whatif.Objects {
	o := zoo()
	request := b.Request("gpu", b.Driver)
	o.Claims = append(o.Claims, since(b.Claim("thief", request).Allocated("node-1", "gpu-0"), time.Hour))
	holding(&o, "whole", "node-2", b.Claim("whole-gpu", request).In("research").Allocated("node-2", "gpu-0"), time.Hour)
	holding(&o, "greedy", "node-1", shared(of(b.Claim("greedy-nic").Allocated("fabric", "nic-1"), nics), "bandwidth", "150G"), time.Hour)
	holding(&o, "late", "node-1", b.Claim("late-gpu", request).Allocated("node-1", "gpu-9"), time.Hour)
	gone := since(b.Claim("forgotten", request).In("research").Allocated("node-1", "gpu-3"), 48*time.Hour)
	gone.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "was-here", UID: "gone"}}
	o.Claims = append(o.Claims, gone)
	return o
}
