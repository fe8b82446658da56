package compat

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// notInV1alpha2 skips a test of what v1alpha2 does not have.
func notInV1alpha2(t *testing.T, what string) {
	t.Helper()
	if tested.claims == api.V1alpha2 {
		t.Skip("v1alpha2 does not have " + what)
	}
}

func TestByName(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "name", 1)
	s.Devices(0, harness.Numbered(4)...)
	s.ClaimAndPod("user", s.Want(3, s.Attribute("index")+" > 0"))
	s.Running("user")
	require.Equal(t, []string{s.Node(0) + "/gpu-1", s.Node(0) + "/gpu-2", s.Node(0) + "/gpu-3"}, s.DeviceNames("user"))
	claim := s.LiveClaim("user")
	require.Contains(t, claim.Finalizers, resourceapi.Finalizer)
	require.Empty(t, cmp.Diff([]resourceapi.ResourceClaimConsumerReference{
		{Resource: "pods", Name: "user", UID: s.LivePod("user").UID},
	}, claim.Status.ReservedFor))
}

func TestFromTemplate(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "template", 2)
	for node := range 2 {
		s.Devices(node, harness.Numbered(3)...)
	}
	s.Create(builder.Claim("one", s.Want(1)).Template())
	s.CreatePods("user", 8)
	// In use, and waiting.
	running := s.RunningAndWaiting(6, 2)
	// Freed, and used again.
	s.DeletePod(running[0])
	s.DeletePod(running[1])
	s.RunningAndWaiting(6, 0)
	require.Zero(t, s.NothingLeaked())
}

func TestSharedByPods(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "shared", 2)
	s.Devices(0, harness.Numbered(1)...)
	s.Devices(1, harness.Numbered(1)...)
	consumers := []string{"first", "second", "third"}
	s.Create(builder.Claim("shared", s.Want(1)).Obj())
	for _, name := range consumers {
		s.Create(s.Pod(name, builder.Uses("shared")))
	}
	s.Running(consumers...)
	require.Len(t, s.LiveClaim("shared").Status.ReservedFor, len(consumers))
	used := 0
	if s.LivePod("first").Spec.NodeName == s.Node(1) {
		used = 1
	}
	// It is on one node, until nobody is left there.
	s.Create(s.PodOnNode("elsewhere", 1-used, builder.Uses("shared")))
	s.Waiting("elsewhere", "claim "+s.Name+"/shared", "allocated on other nodes")
	for _, name := range consumers {
		s.DeletePod(name)
	}
	s.RunningSoon("elsewhere")
	require.Equal(t, []string{s.Node(1-used) + "/gpu-0"}, s.DeviceNames("elsewhere"))
}

func TestUnsatisfiable(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "reason", 1)
	s.Devices(0, harness.Numbered(2)...)
	s.ClaimAndPod("many", s.Want(3))
	if tested.claims == api.V1alpha2 { // Three requests, there.
		s.Waiting("many", "claim "+s.Name+"/many")
	} else {
		s.Waiting("many", "claim "+s.Name+"/many request gpu", "2 devices match: 3 asked")
	}
	s.ClaimAndPod("other", s.Want(1, s.Attribute("index")+" == 7"))
	s.Waiting("other", "claim "+s.Name+"/other request "+s.RequestName())
	s.ClaimAndPod("modest", s.Want(2))
	s.Running("modest")
}

func TestMissingClass(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "class", 1)
	s.Devices(0, harness.Numbered(1)...)
	late := s.Name + "-late"
	s.ClaimAndPod("late", builder.Request("gpu", late))
	s.Waiting("late", "claim "+s.Name+"/late", " class "+late+" does not exist")
	s.Create(builder.Class(late, builder.OfDriver(s.Driver)))
	s.RunningSoon("late")
}

func TestConstraint(t *testing.T) {
	t.Parallel()
	notInV1alpha2(t, "constraints")
	s := newSpace(t, "constraint", 1)
	devices := harness.Numbered(4)
	for i, device := range devices {
		device.Attr("rail", []string{"a", "b", "c", "b"}[i])
	}
	s.Devices(0, devices...)
	s.Create(builder.Claim("pair", s.Want(2)).Match(s.Driver+"/rail").Obj(),
		s.Pod("pair", builder.Uses("pair")))
	s.Running("pair")
	require.Equal(t, []string{s.Node(0) + "/gpu-1", s.Node(0) + "/gpu-3"}, s.DeviceNames("pair"))
}

// Devices that are reached from some nodes, and claims that keep their pods there.
func TestNodeSelectors(t *testing.T) {
	t.Parallel()
	notInV1alpha2(t, "devices of more than one node")
	const rack = "example.com/rack"
	s := newSpace(t, "nodes", 1)
	for i := 1; i <= 2; i++ {
		s.AddNode(i, map[string]string{rack: s.Name})
	}
	s.Create(builder.Slice(s.Name).OfDriver(s.Driver).OnLabeled(rack, s.Name).Devices(harness.Numbered(3)...).Obj())
	s.Create(builder.Claim("shared", s.Want(2)).Obj(), s.PodOnNode("first", 1, builder.Uses("shared")), s.PodOnNode("second", 2, builder.Uses("shared")))
	s.Running("first", "second")
	require.Empty(t, cmp.Diff(builder.NodeSelector(rack, s.Name), s.LiveClaim("shared").Status.Allocation.NodeSelector))
	s.Create(s.PodOnNode("third", 0, builder.Uses("shared")))
	s.Waiting("third", "claim "+s.Name+"/shared", "allocated on other nodes")
	s.Create(builder.Claim("out-of-reach", s.Want(1)).Obj(), s.PodOnNode("fourth", 0, builder.Uses("out-of-reach")))
	s.Waiting("fourth", "claim "+s.Name+"/out-of-reach")
	s.ClaimAndPod("anywhere", s.Want(1))
	s.Running("anywhere")
	require.Contains(t, []string{s.Node(1), s.Node(2)}, s.LivePod("anywhere").Spec.NodeName)
}

func TestAllNodes(t *testing.T) {
	t.Parallel()
	notInV1alpha2(t, "devices of more than one node")
	s := newSpace(t, "network", 2)
	s.Create(builder.Slice(s.Name).OfDriver(s.Driver).OnAllNodes().Devices(harness.Numbered(1)...).Obj())
	s.ClaimAndPod("user", s.Want(1))
	s.Running("user")
	require.Nil(t, s.LiveClaim("user").Status.Allocation.NodeSelector)
}

// A claim that is allocated where its pod cannot run moves, if nobody uses it.
func TestDeallocation(t *testing.T) {
	t.Parallel()
	notInV1alpha2(t, "allocations as v1 has them (TestV1alpha2Deallocation does the same)")
	s := newSpace(t, "deallocation", 2)
	s.Devices(0, harness.Numbered(1)...)
	s.Devices(1, harness.Numbered(1)...)
	s.Create(builder.Claim("stuck", s.Want(1)).Obj())
	s.Protect("stuck")
	s.UpdateClaimStatus("stuck", func(c *resourceapi.ResourceClaim) {
		c.Status.Allocation = &resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
				{Request: "gpu", Driver: s.Driver, Pool: s.Node(0), Device: "gpu-0"},
			}},
			NodeSelector: builder.NodeSelector("kubernetes.io/hostname", s.Node(0)),
		}
	})
	s.Create(s.PodOnNode("elsewhere", 1, builder.Uses("stuck")))
	s.RunningSoon("elsewhere")
	require.Equal(t, []string{s.Node(1) + "/gpu-0"}, s.DeviceNames("elsewhere"))
}

// What drivers write about devices stays when pods join or leave a claim.
func TestDeviceStatusStays(t *testing.T) {
	t.Parallel()
	needs(t, deviceStatus)
	s := newSpace(t, "devices", 1)
	s.Devices(0, harness.Numbered(1)...)
	s.Create(builder.Claim("shared", s.Want(1)).Config(s.Driver, `{"speed":"high"}`).Obj())
	s.Create(s.Pod("first", builder.Uses("shared")))
	s.Running("first")
	require.JSONEq(t, `{"speed":"high"}`, string(s.LiveClaim("shared").Status.Allocation.Devices.Config[0].Opaque.Parameters.Raw))
	network := &resourceapi.NetworkDeviceData{InterfaceName: "net-7"}
	s.UpdateClaimStatus("shared", func(c *resourceapi.ResourceClaim) {
		c.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: s.Driver, Pool: s.Node(0), Device: "gpu-0", NetworkData: network}}
	})
	require.NotEmpty(t, s.LiveClaim("shared").Status.Devices, "the feature is on")
	s.Create(s.Pod("second", builder.Uses("shared")))
	s.Running("first", "second")
	require.Equal(t, network, s.LiveClaim("shared").Status.Devices[0].NetworkData)
}
