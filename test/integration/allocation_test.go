package integration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

const (
	noSchedule = resourceapi.DeviceTaintEffectNoSchedule
	sick       = "example.com/sick"
)

// What is written, and when it is rolled back.
func TestAllocation(t *testing.T) {
	t.Parallel()
	parallel(t, map[string]func(*testing.T){
		"complete result":          testCompleteResult,
		"deallocated to move":      testDeallocation,
		"not deallocated, in use":  testNoDeallocation,
		"kept for the same device": testReuse,
	})
}

func testCompleteResult(t *testing.T) {
	s := newSpace(t, "result", 1)
	devices := numbered(3)
	devices[0].Taint(sick, noSchedule)
	s.Devices(0, devices...)
	configured := s.Name + "-configured"
	s.Create(builder.WithConfig(builder.Class(configured, builder.OfDriver(s.Driver)), s.Driver, `{"from":"class"}`))
	s.Create(builder.Claim("full",
		builder.Request("first", configured).Tolerate(sick, noSchedule),
		s.Want(1).Named("second")).
		Config(s.Driver, `{"from":"claim"}`, "second").
		Config(s.Driver, `{"for":"all"}`).Obj(), s.Pod("full", builder.Uses("full")))
	s.Running("full")

	claim := s.LiveClaim("full")
	require.Contains(t, claim.Finalizers, resourceapi.Finalizer)
	config := func(source resourceapi.AllocationConfigSource, parameters string, requests ...string) resourceapi.DeviceAllocationConfiguration {
		return resourceapi.DeviceAllocationConfiguration{Source: source, Requests: requests,
			DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
				Driver: s.Driver, Parameters: runtime.RawExtension{Raw: []byte(parameters)},
			}}}
	}
	want := &resourceapi.AllocationResult{
		Devices: resourceapi.DeviceAllocationResult{
			Results: []resourceapi.DeviceRequestAllocationResult{
				{Request: "first", Driver: s.Driver, Pool: s.Node(0), Device: "gpu-0",
					Tolerations: []resourceapi.DeviceToleration{builder.Toleration(sick, noSchedule)}},
				{Request: "second", Driver: s.Driver, Pool: s.Node(0), Device: "gpu-1"},
			},
			Config: []resourceapi.DeviceAllocationConfiguration{
				config(resourceapi.AllocationConfigSourceClass, `{"from":"class"}`, "first"),
				config(resourceapi.AllocationConfigSourceClaim, `{"from":"claim"}`, "second"),
				config(resourceapi.AllocationConfigSourceClaim, `{"for":"all"}`),
			},
		},
		NodeSelector: onlyOn(s.Node(0)),
	}
	require.Empty(t, cmp.Diff(want, claim.Status.Allocation,
		cmpopts.IgnoreFields(resourceapi.AllocationResult{}, "AllocationTimestamp")))
	require.NotNil(t, claim.Status.Allocation.AllocationTimestamp)
}

// allocateOn gives a claim a device of a node, as a scheduler would have done.
// Nobody has reserved it.
func (s *space) allocateOn(claim string, node int, device string, consumers ...resourceapi.ResourceClaimConsumerReference) {
	s.T.Helper()
	s.Protect(claim)
	s.UpdateClaimStatus(claim, func(c *resourceapi.ResourceClaim) {
		c.Status.Allocation = &resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
				{Request: "gpu", Driver: s.Driver, Pool: s.Node(node), Device: device},
			}},
			NodeSelector: onlyOn(s.Node(node)),
		}
		c.Status.ReservedFor = consumers
	})
}

func testDeallocation(t *testing.T) {
	s := newSpace(t, "deallocation", 2)
	s.Devices(0, numbered(1)...)
	s.Devices(1, numbered(1)...)
	s.Create(builder.Claim("stuck", s.Want(1)).Obj())
	s.allocateOn("stuck", 0, "gpu-0")
	s.Create(s.PodOnNode("elsewhere", 1, builder.Uses("stuck")))
	s.RunningSoon("elsewhere")
	require.Equal(t, []string{s.Node(1) + "/gpu-0"}, s.DeviceNames("elsewhere"))
	// The device that was released is free.
	s.Create(builder.Claim("next", s.Want(1)).Obj(), s.PodOnNode("next", 0, builder.Uses("next")))
	s.Running("next")
}

func testNoDeallocation(t *testing.T) {
	s := newSpace(t, "nodeallocation", 2)
	s.Devices(0, numbered(1)...)
	s.Devices(1, numbered(1)...)
	s.Create(builder.Claim("used", s.Want(1)).Obj())
	s.allocateOn("used", 0, "gpu-0", foreignConsumer("somebody"))
	s.Create(s.PodOnNode("elsewhere", 1, builder.Uses("used")))
	s.Waiting("elsewhere", "claim "+s.Name+"/used", "allocated on other nodes")
	require.NotNil(t, s.LiveClaim("used").Status.Allocation)
	// Once nobody uses it any more, it can move.
	s.UpdateClaimStatus("used", func(claim *resourceapi.ResourceClaim) { claim.Status.ReservedFor = nil })
	s.RunningSoon("elsewhere")
	require.Equal(t, []string{s.Node(1) + "/gpu-0"}, s.DeviceNames("elsewhere"))
}

// An allocation that fits is used as it is.
func testReuse(t *testing.T) {
	s := newSpace(t, "reuse", 2)
	s.Devices(0, numbered(2)...)
	s.Devices(1, numbered(2)...)
	s.Create(builder.Claim("chosen", s.Want(1)).Obj())
	s.allocateOn("chosen", 1, "gpu-1")
	s.Create(s.Pod("user", builder.Uses("chosen")))
	s.Running("user")
	require.Equal(t, []string{s.Node(1) + "/gpu-1"}, s.DeviceNames("user"))
}
