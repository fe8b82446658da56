package integration

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// Devices that draw from counters of their pool (KEP-4815).
func TestPartitions(t *testing.T) {
	t.Parallel()
	parallel(t, map[string]func(*testing.T){
		"whole or in parts":         testWholeOrParts,
		"counters used up":          testCountersUsedUp,
		"counters in other slices":  testCountersInSlices,
		"counters of several nodes": testCountersOfNodes,
		"a device for each node":    testDeviceForEachNode,
		"a device for four nodes":   testMultiHostDevice,
	})
}

// partition is a device that draws from the counter of a GPU.
func partition(gpu int, name, memory string) *builder.DeviceBuilder {
	return builder.Device(fmt.Sprintf("gpu-%d-%s", gpu, name)).Attr("size", memory).Consumes(fmt.Sprintf("gpu-%d", gpu), "memory", memory)
}

// partitions are all that can be made of a GPU with 40Gi.
func partitions(gpu int) []*builder.DeviceBuilder {
	devices := []*builder.DeviceBuilder{partition(gpu, "whole", "40Gi")}
	for i := range 2 {
		devices = append(devices, partition(gpu, fmt.Sprintf("half-%d", i), "20Gi"))
	}
	for i := range 4 {
		devices = append(devices, partition(gpu, fmt.Sprintf("quarter-%d", i), "10Gi"))
	}
	return devices
}

// poolPart starts a slice of the pool of node 0, which has so many slices.
func (s *space) poolPart(name string, count int64) *builder.SliceBuilder {
	return builder.Slice(s.Name+"-"+name).OfDriver(s.Driver).OnNode(s.Node(0)).InPool(s.Node(0), 1, count)
}

// gpuPool publishes partitionable GPUs on node 0.
func (s *space) gpuPool(gpus int) {
	counters, devices := s.poolPart("counters", 2), s.poolPart("devices", 2)
	for gpu := range gpus {
		counters.Counters(fmt.Sprintf("gpu-%d", gpu), "memory", "40Gi")
		devices.Devices(partitions(gpu)...)
	}
	s.Create(counters.Obj(), devices.Obj())
}

func (s *space) ofSize(memory string, count int64) *builder.RequestBuilder {
	return s.Want(count, fmt.Sprintf("%s == %q", s.Attribute("size"), memory))
}

func testWholeOrParts(t *testing.T) {
	s := newSpace(t, "parts", 1)
	s.gpuPool(1)
	s.ClaimAndPod("half", s.ofSize("20Gi", 1))
	s.Running("half")
	s.ClaimAndPod("whole", s.ofSize("40Gi", 1))
	s.Waiting("whole", "claim "+s.Name+"/whole", "request gpu", "draws on counters that have too little left")
	s.ClaimAndPod("quarters", s.ofSize("10Gi", 3))
	s.Waiting("quarters", "claim "+s.Name+"/quarters")
	s.ClaimAndPod("two-quarters", s.ofSize("10Gi", 2))
	s.Running("two-quarters")
	s.DeletePod("half")
	s.DeletePod("two-quarters")
	// Only one of the two has room now, whoever is first.
	s.EventuallyFree("half")
	s.EventuallyFree("two-quarters")
	s.DeletePod("quarters")
	s.RunningSoon("whole")
}

// Many pods at a time draw from two counters until they are exactly used up.
func testCountersUsedUp(t *testing.T) {
	s := newSpace(t, "countersusedup", 1)
	s.gpuPool(2)
	s.ClaimAndPod("half", s.ofSize("20Gi", 1))
	s.Running("half")
	s.Create(builder.Claim("one", s.ofSize("10Gi", 1)).Template())
	s.CreatePods("quarter", 8)
	s.Eventually("have six quarters in use", s.runningOf("quarter", 6))
	s.DeletePod("half")
	s.Eventually("have eight quarters in use", s.runningOf("quarter", 8))
}

// Counters are in one slice, the devices that draw on them in two others.
func testCountersInSlices(t *testing.T) {
	s := newSpace(t, "counterslices", 1)
	s.Create(
		s.poolPart("counters", 3).Counters("gpu-0", "memory", "40Gi").Obj(),
		s.poolPart("wholes", 3).Devices(partition(0, "whole", "40Gi")).Obj(),
		s.poolPart("halves", 3).Devices(partition(0, "half-0", "20Gi"), partition(0, "half-1", "20Gi")).Obj(),
	)
	s.ClaimAndPod("first", s.ofSize("20Gi", 1))
	s.ClaimAndPod("second", s.ofSize("20Gi", 1))
	s.Running("first", "second")
	s.ClaimAndPod("whole", s.ofSize("40Gi", 1))
	s.Waiting("whole", "claim "+s.Name+"/whole", "too little left")
	s.DeletePod("first")
	s.DeletePod("second")
	s.RunningSoon("whole")
}

// What devices of one node draw is missing on another one.
func testCountersOfNodes(t *testing.T) {
	s := newSpace(t, "counternodes", 2)
	fabric := func(name string) *builder.SliceBuilder {
		return builder.Slice(s.Name+"-"+name).OfDriver(s.Driver).InPool(s.Name, 1, 2)
	}
	var devices []*builder.DeviceBuilder
	for node := range 2 {
		for i := range 3 {
			devices = append(devices, builder.Device(fmt.Sprintf("port-%d-%d", node, i)).Consumes("switch", "lanes", "16").OnNode(s.Node(node)))
		}
	}
	s.Create(fabric("counters").OnAllNodes().Counters("switch", "lanes", "64").Obj(), fabric("devices").PerDevice().Devices(devices...).Obj())
	s.Create(builder.Claim("here", s.Want(3)).Obj(), s.PodOnNode("here", 0, builder.Uses("here")))
	s.Running("here")
	s.Create(builder.Claim("two", s.Want(2)).Obj(), s.PodOnNode("two", 1, builder.Uses("two")))
	s.Waiting("two", "claim "+s.Name+"/two", "request gpu")
	s.Create(builder.Claim("single", s.Want(1)).Obj(), s.PodOnNode("single", 1, builder.Uses("single")))
	s.Running("single")
	s.DeletePod("here")
	s.RunningSoon("two")
}

// One slice has a device for each of eight nodes; each pod gets the one of its node.
func testDeviceForEachNode(t *testing.T) {
	const nodes = 8
	s := newSpace(t, "deviceeach", nodes)
	var devices []*builder.DeviceBuilder
	for node := range nodes {
		devices = append(devices, builder.Device("of-"+s.Node(node)).OnNode(s.Node(node)))
	}
	s.Create(builder.Slice(s.Name).OfDriver(s.Driver).PerDevice().Devices(devices...).Obj())
	s.Create(builder.Claim("one", s.Want(1)).Template())
	s.CreatePods("pod", nodes)
	for i := range nodes {
		name := fmt.Sprintf("pod-%03d", i)
		s.Running(name)
		require.Equal(t, []string{s.Name + "/of-" + s.LivePod(name).Spec.NodeName}, s.DeviceNames(name))
	}
}

// Four pods share a claim for one device that four nodes reach, each on a node of its own.
func testMultiHostDevice(t *testing.T) {
	const hosts = 4
	s := newSpace(t, "multihost", 1)
	for i := 1; i <= hosts; i++ {
		s.AddNode(i, map[string]string{rack: s.Name})
	}
	s.Create(builder.Slice(s.Name).OfDriver(s.Driver).PerDevice().Devices(builder.Device("ring").OnLabeled(rack, s.Name)).Obj())
	s.Create(builder.Claim("ring", s.Want(1)).Obj())
	var pods []string
	for i := range hosts {
		pod := s.Pod(fmt.Sprintf("host-%d", i), builder.Uses("ring"))
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey:   corev1.LabelHostname,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"job": s.Name}},
			}},
		}}
		pod.Labels["job"] = s.Name
		s.Create(pod)
		pods = append(pods, pod.Name)
	}
	s.Running(pods...)
	used := make(map[string]bool)
	for _, pod := range pods {
		used[s.LivePod(pod).Spec.NodeName] = true
	}
	require.Len(t, used, hosts)
	require.NotContains(t, used, s.Node(0))
	require.Len(t, s.LiveClaim("ring").Status.ReservedFor, hosts)
	require.Equal(t, []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: s.Driver, Pool: s.Name, Device: "ring"}},
		s.LiveClaim("ring").Status.Allocation.Devices.Results)
}
