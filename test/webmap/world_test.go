package webmap

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/kubectl/web"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

const gpus = 8

// world is a cluster: nodes with eight GPUs, of which about half are in use. Of the first nodes, every fourth has GPUs
// in partitions, and every fifth GPUs that are shared, if mixed is set.
func world(nodes int, mixed bool) whatif.Objects {
	o := whatif.Objects{Classes: []*resourceapi.DeviceClass{b.DriverClass(b.Driver), b.Class("large", `device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("70Gi"))`)}}
	for n := range nodes {
		name := fmt.Sprintf("node-%d", n)
		node := b.Node(name, "zone", string(rune('a'+n%3)))
		node.Status.Allocatable = b.Resources("cpu", "64", "memory", "512Gi", "pods", "110")
		node.Spec.Unschedulable = n == 7
		o.Nodes = append(o.Nodes, node)
		switch {
		case mixed && n%8 == 5:
			addPartitions(&o, name)
		default:
			addGPUs(&o, n, name, mixed && n%8 == 3)
		}
	}
	if mixed {
		o.Slices[2].Spec.Pool.ResourceSliceCount = 2
	}
	claim := b.Claim("large-job", b.Request("gpus", "large").Count(gpus)).Obj()
	o.Claims = append(o.Claims, claim)
	waiting := b.Pod("large-job", b.Container("main", "cpu", "1"), b.Using(b.Uses("large-job")...))
	waiting.Status.Phase = v1.PodPending
	waiting.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Message: "no node has eight free devices"}}
	o.Pods = append(o.Pods, waiting)
	return o
}

func addGPUs(o *whatif.Objects, n int, node string, shared bool) {
	var devices []*b.DeviceBuilder
	for i := range gpus {
		device := b.Device(fmt.Sprintf("gpu-%d", i)).Attr("numa", i/4).Attr("pcieRoot", fmt.Sprintf("pci-%d", i/2)).Attr("model", "A100").Capacity("memory", "80Gi")
		if n%9 == 4 && i == 6 {
			device.Taint("example.com/broken", resourceapi.DeviceTaintEffectNoSchedule)
		}
		if shared {
			device.Shared()
		}
		devices = append(devices, device)
	}
	o.Slices = append(o.Slices, b.NodeSlice(node, devices...).Obj())
	for i := range gpus {
		name := fmt.Sprintf("job-%d-%d", n, i)
		switch {
		case shared && i < 6:
			o.Claims = append(o.Claims, share(name, node, fmt.Sprintf("gpu-%d", i), fmt.Sprintf("%dGi", 13*(i+1))))
		case !shared && i < (n*7)%(gpus+1) && i < gpus-1 || !shared && i == 0:
			o.Claims = append(o.Claims, held(o, n, name, node, fmt.Sprintf("gpu-%d", i)))
		}
	}
}

// held is a claim of a pod that runs, in one of two namespaces.
func held(o *whatif.Objects, n int, name, node, device string) *resourceapi.ResourceClaim {
	namespace := []string{"research", "serving"}[n%2]
	claim := b.Claim(name, b.Request("gpu", b.Driver)).In(namespace).Allocated(node, device)
	pod := b.Pod(name, b.Container("main", "cpu", "1"), b.Using(b.Uses(name)...))
	pod.Namespace, pod.Spec.NodeName, pod.Status.Phase = namespace, node, v1.PodRunning
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
	o.Pods = append(o.Pods, pod)
	return claim
}

func share(name, node, device, memory string) *resourceapi.ResourceClaim {
	claim := b.Claim(name, b.Request("gpu", b.Driver)).In("serving").Allocated(node, device)
	result := &claim.Status.Allocation.Devices.Results[0]
	id := types.UID(name)
	result.ShareID = &id
	result.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(memory)}
	return claim
}

// addPartitions adds four GPUs that publish themselves and all their partitions.
func addPartitions(o *whatif.Objects, node string) {
	counters := b.Slice(node+"-counters").InPool(node, 1, 2).OnNode(node)
	var devices []*b.DeviceBuilder
	for gpu := range 4 {
		set := fmt.Sprintf("gpu-%d", gpu)
		counters.Counters(set, "memory", "80Gi")
		for size, parts := range []int{1, 2, 4} {
			for part := range parts {
				devices = append(devices, b.Device(fmt.Sprintf("%s-%dg-%d", set, 4>>size, part)).Attr("numa", gpu/2).Attr("model", "A100").
					Capacity("memory", fmt.Sprintf("%dGi", 80/parts)).Consumes(set, "memory", fmt.Sprintf("%dGi", 80/parts)))
			}
		}
	}
	o.Slices = append(o.Slices, b.Slice(node).InPool(node, 1, 2).OnNode(node).Devices(devices...).Obj(), counters.Obj())
	for i, device := range []string{"gpu-0-4g-0", "gpu-1-2g-0", "gpu-1-1g-3", "gpu-2-1g-0"} {
		o.Claims = append(o.Claims, b.Claim(fmt.Sprintf("part-%s-%d", node, i), b.Request("gpu", b.Driver)).In("research").Allocated(node, device))
	}
}

// site is a map that is served.
type site struct {
	t       *testing.T
	shown   *web.Map
	address string
	// stop ends the server.
	stop func()
}

func serve(t *testing.T, o whatif.Objects) *site {
	t.Helper()
	s := serveNothing(t)
	s.show(o)
	return s
}

// serveNothing serves a map of a cluster that was not read yet.
func serveNothing(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, shown: web.NewMap("context example")}
	server, err := web.Listen(s.shown, 0)
	require.NoError(t, err)
	s.address = server.Address
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-ended:
			require.NoError(t, err)
		case <-time.After(patience):
			require.Fail(t, "the server does not end")
		}
	})
	return s
}

// show shows other objects, and returns how long it took to draw them up.
func (s *site) show(o whatif.Objects) time.Duration {
	s.t.Helper()
	start := time.Now()
	require.NoError(s.t, s.shown.Show(whatif.New(o, whatif.Options{})))
	return time.Since(start)
}
