package compat

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// The server drops that access is administrative. What is left is a claim like any other: it holds
// what it gets, and waits for what others hold.
func TestOffAdminAccess(t *testing.T) {
	t.Parallel()
	isOff(t, adminAccess)
	s := newSpace(t, "off-admin", 1)
	s.Devices(0, harness.Numbered(1)...)
	s.ClaimAndPod("monitor", s.Want(1).Admin())
	s.Running("monitor")
	require.Nil(t, s.Results("monitor")[0].AdminAccess)
	s.ClaimAndPod("another", s.Want(1).Admin())
	s.Waiting("another", "claim "+s.Name+"/another request gpu", "held by")
	s.DeletePod("monitor")
	s.RunningSoon("another")
}

// The server drops what drivers say about devices. Pods come and go all the same.
func TestOffDeviceStatus(t *testing.T) {
	t.Parallel()
	isOff(t, deviceStatus)
	s := newSpace(t, "off-status", 1)
	s.Devices(0, harness.Numbered(1)...)
	s.Create(builder.Claim("shared", s.Want(1)).Obj(), s.Pod("first", builder.Uses("shared")))
	s.Running("first")
	s.UpdateClaimStatus("shared", func(c *resourceapi.ResourceClaim) {
		c.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: s.Driver, Pool: s.Node(0), Device: "gpu-0"}}
	})
	require.Empty(t, s.LiveClaim("shared").Status.Devices, "the server has dropped it")
	s.Create(s.Pod("second", builder.Uses("shared")))
	s.Running("first", "second")
}

// The server drops that a device can be shared, so that one claim has it for itself.
func TestOffConsumableCapacity(t *testing.T) {
	t.Parallel()
	isOff(t, consumable)
	s := newSpace(t, "off-consumable", 1)
	s.Devices(0, builder.Device("nic").Shared().Capacity("bandwidth", "10G"))
	share := s.Want(1).Capacity("bandwidth", "4G")
	s.ClaimAndPod("first", share)
	s.Running("first")
	result := s.Results("first")[0]
	require.Nil(t, result.ShareID)
	require.Empty(t, result.ConsumedCapacity)
	s.ClaimAndPod("second", share)
	s.Waiting("second", "claim "+s.Name+"/second request gpu", "held by")
	s.DeletePod("first")
	s.RunningSoon("second")
}

// The server drops binding conditions, so that nobody waits for them.
func TestOffBindingConditions(t *testing.T) {
	t.Parallel()
	isOff(t, bindingConditions)
	s := newSpace(t, "off-conditions", 1)
	s.Devices(0, attachedFirst())
	s.ClaimAndPod("user", s.Want(1))
	s.Running("user")
	require.Empty(t, s.Results("user")[0].BindingConditions)
}

// The server drops the taints of devices, so that they are handed out.
func TestOffDeviceTaints(t *testing.T) {
	t.Parallel()
	isOff(t, deviceTaints)
	s := newSpace(t, "off-taints", 1)
	s.Devices(0, builder.Device("gpu-0").Taint("example.com/sick", resourceapi.DeviceTaintEffectNoSchedule))
	s.ClaimAndPod("user", s.Want(1))
	s.Running("user")
}

// Where the server drops counters, devices that draw from them look like whole ones. Each still has
// one holder at most.
func TestOffPartitions(t *testing.T) {
	t.Parallel()
	isOff(t, partitions)
	s := newSpace(t, "off-partitions", 1)
	half := func(name string) *builder.DeviceBuilder {
		return builder.Device(name).Consumes("gpu", "memory", "20Gi")
	}
	slice := s.Slice(0, half("half-0"), half("half-1"))
	if minor <= 34 {
		slice.Counters("gpu", "memory", "20Gi")
	}
	s.Create(slice.Obj())
	s.Create(builder.Claim("one", s.Want(1)).Template())
	s.CreatePods("user", 3)
	s.RunningAndWaiting(2, 1)
}

// A server that has claims in v1 but not this feature cannot record which devices serve a pod's
// extended resources: the pod is told, and holds nothing. Older ones are known by their version.
func TestOffExtendedResource(t *testing.T) {
	t.Parallel()
	isOff(t, extendedResources)
	s := newSpace(t, "off-extended", 1)
	s.Devices(0, harness.Numbered(2)...)
	pod := s.Pod("user", nil)
	builder.Extended(corev1.ResourceName(s.Implicit()), "1")(pod)
	s.Create(pod)
	s.Waiting("user", "DRAExtendedResource")
	require.Zero(t, s.Allocated())
	s.ClaimAndPod("with-claim", s.Want(2))
	s.Running("with-claim")
}
