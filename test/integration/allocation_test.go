package integration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/playground/workload"
)

// What is written, and when it is taken back.
func TestAllocation(t *testing.T) {
	t.Parallel()
	parallel(t, map[string]func(*testing.T){
		"complete result":          testCompleteResult,
		"admin access":             testAdminAccess,
		"deallocated to move":      testDeallocation,
		"not deallocated, in use":  testNoDeallocation,
		"kept for the same device": testReuse,
	})
}

func testCompleteResult(t *testing.T) {
	s := newSpace(t, "result", 1)
	devices := numbered(3)
	devices[0].Taint(sick, noSchedule)
	s.devices(0, devices...)
	configured := s.name + "-configured"
	s.create(workload.WithConfig(workload.Class(configured, workload.OfDriver(s.driver)), s.driver, `{"from":"class"}`))
	tolerant := s.tolerant(noSchedule)
	tolerant.Class = configured
	s.create(workload.Claim("full",
		workload.Request("first", tolerant),
		workload.Request("second", s.want(1)),
		workload.Config(s.driver, `{"from":"claim"}`, "second"),
		workload.Config(s.driver, `{"for":"all"}`),
	), s.pod("full", uses("full")))
	s.running("full")

	claim := s.liveClaim("full")
	require.Contains(t, claim.Finalizers, resourceapi.Finalizer)
	config := func(source resourceapi.AllocationConfigSource, parameters string, requests ...string) resourceapi.DeviceAllocationConfiguration {
		return resourceapi.DeviceAllocationConfiguration{Source: source, Requests: requests,
			DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
				Driver: s.driver, Parameters: runtime.RawExtension{Raw: []byte(parameters)},
			}}}
	}
	want := &resourceapi.AllocationResult{
		Devices: resourceapi.DeviceAllocationResult{
			Results: []resourceapi.DeviceRequestAllocationResult{
				{Request: "first", Driver: s.driver, Pool: s.node(0), Device: "gpu-0",
					Tolerations: []resourceapi.DeviceToleration{workload.Tolerate(sick, noSchedule)}},
				{Request: "second", Driver: s.driver, Pool: s.node(0), Device: "gpu-1"},
			},
			Config: []resourceapi.DeviceAllocationConfiguration{
				config(resourceapi.AllocationConfigSourceClass, `{"from":"class"}`, "first"),
				config(resourceapi.AllocationConfigSourceClaim, `{"from":"claim"}`, "second"),
				config(resourceapi.AllocationConfigSourceClaim, `{"for":"all"}`),
			},
		},
		NodeSelector: onlyOn(s.node(0)),
	}
	require.Empty(t, cmp.Diff(want, claim.Status.Allocation,
		cmpopts.IgnoreFields(resourceapi.AllocationResult{}, "AllocationTimestamp")))
	require.NotNil(t, claim.Status.Allocation.AllocationTimestamp)
}

// A monitor sees devices that others have, and takes none away (KEP-5018).
func testAdminAccess(t *testing.T) {
	s := newSpace(t, "admin", 1)
	s.devices(0, numbered(2)...)
	s.claimAndPod("user", s.want(1))
	s.running("user")
	all := s.wantAll()
	all.Admin = true
	s.claimAndPod("monitor", all)
	s.running("monitor")
	results := s.results("monitor")
	require.Len(t, results, 2)
	for _, result := range results {
		require.True(t, ptr.Deref(result.AdminAccess, false))
	}
	s.claimAndPod("next", s.want(1))
	s.running("next")
	s.claimAndPod("late", s.want(1))
	s.waiting("late", "request gpu", "2 devices match, but all are held by other claims")
	s.deletePod("user")
	s.runningSoon("late")
}

// allocateOn gives a claim a device of a node, as a scheduler would have done.
// Nobody has reserved it.
func (s *space) allocateOn(claim string, node int, device string, consumers ...resourceapi.ResourceClaimConsumerReference) {
	s.t.Helper()
	s.protect(claim)
	s.updateClaimStatus(claim, func(c *resourceapi.ResourceClaim) {
		c.Status.Allocation = &resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
				{Request: "gpu", Driver: s.driver, Pool: s.node(node), Device: device},
			}},
			NodeSelector: onlyOn(s.node(node)),
		}
		c.Status.ReservedFor = consumers
	})
}

func testDeallocation(t *testing.T) {
	s := newSpace(t, "deallocation", 2)
	s.devices(0, numbered(1)...)
	s.devices(1, numbered(1)...)
	s.create(one("stuck", s.want(1)))
	s.allocateOn("stuck", 0, "gpu-0")
	s.create(s.podOnNode("elsewhere", 1, uses("stuck")))
	s.runningSoon("elsewhere")
	require.Equal(t, []string{s.node(1) + "/gpu-0"}, s.deviceNames("elsewhere"))
	// The device that was given back is free.
	s.create(one("next", s.want(1)), s.podOnNode("next", 0, uses("next")))
	s.running("next")
}

func testNoDeallocation(t *testing.T) {
	s := newSpace(t, "nodeallocation", 2)
	s.devices(0, numbered(1)...)
	s.devices(1, numbered(1)...)
	s.create(one("used", s.want(1)))
	s.allocateOn("used", 0, "gpu-0", foreignConsumer("somebody"))
	s.create(s.podOnNode("elsewhere", 1, uses("used")))
	s.waiting("elsewhere", "claim "+s.name+"/used", "allocated on other nodes")
	require.NotNil(t, s.liveClaim("used").Status.Allocation)
	// Once nobody uses it any more, it can move.
	s.updateClaimStatus("used", func(claim *resourceapi.ResourceClaim) { claim.Status.ReservedFor = nil })
	s.runningSoon("elsewhere")
	require.Equal(t, []string{s.node(1) + "/gpu-0"}, s.deviceNames("elsewhere"))
}

// An allocation that fits is used as it is.
func testReuse(t *testing.T) {
	s := newSpace(t, "reuse", 2)
	s.devices(0, numbered(2)...)
	s.devices(1, numbered(2)...)
	s.create(one("chosen", s.want(1)))
	s.allocateOn("chosen", 1, "gpu-1")
	s.create(s.pod("user", uses("chosen")))
	s.running("user")
	require.Equal(t, []string{s.node(1) + "/gpu-1"}, s.deviceNames("user"))
}
