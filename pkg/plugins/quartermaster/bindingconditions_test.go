package quartermaster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// reports is what a driver says about one device.
func reports(device string, conditions ...metav1.Condition) resourceapi.AllocatedDeviceStatus {
	return resourceapi.AllocatedDeviceStatus{Driver: "d", Pool: "p", Device: device, Conditions: conditions}
}

func condition(name string, status metav1.ConditionStatus) metav1.Condition {
	return metav1.Condition{Type: name, Status: status, Reason: "R", Message: "m"}
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	isTrue, isFalse := metav1.ConditionTrue, metav1.ConditionFalse
	share := types.UID("share")
	gated := func(device string) resourceapi.DeviceRequestAllocationResult {
		return resourceapi.DeviceRequestAllocationResult{Driver: "d", Pool: "p", Device: device,
			BindingConditions: []string{"a", "b"}, BindingFailureConditions: []string{"x", "y"}}
	}
	shared := gated("s")
	shared.ShareID = &share
	ofShare := func(id string) resourceapi.AllocatedDeviceStatus {
		status := reports("s", condition("a", isTrue), condition("b", isTrue))
		status.ShareID = &id
		return status
	}
	otherPool := reports("g", condition("a", isTrue), condition("b", isTrue))
	otherPool.Pool = "q"
	otherDriver := reports("g", condition("a", isTrue), condition("b", isTrue))
	otherDriver.Driver = "e"
	tests := map[string]struct {
		results  []resourceapi.DeviceRequestAllocationResult
		devices  []resourceapi.AllocatedDeviceStatus
		ready    bool
		pending  string
		failure  string
		waitable bool
	}{
		"no conditions":             {results: []resourceapi.DeviceRequestAllocationResult{{Driver: "d", Pool: "p", Device: "plain"}}, ready: true},
		"nothing reported":          {results: []resourceapi.DeviceRequestAllocationResult{gated("g")}, pending: "device d/p/g lacks a, b", waitable: true},
		"one of two":                {results: []resourceapi.DeviceRequestAllocationResult{gated("g")}, devices: []resourceapi.AllocatedDeviceStatus{reports("g", condition("b", isTrue))}, pending: "device d/p/g lacks a", waitable: true},
		"one is false":              {results: []resourceapi.DeviceRequestAllocationResult{gated("g")}, devices: []resourceapi.AllocatedDeviceStatus{reports("g", condition("a", isFalse), condition("b", isTrue))}, pending: "device d/p/g lacks a", waitable: true},
		"all":                       {results: []resourceapi.DeviceRequestAllocationResult{gated("g")}, devices: []resourceapi.AllocatedDeviceStatus{reports("g", condition("a", isTrue), condition("b", isTrue), condition("x", isFalse))}, ready: true, waitable: true},
		"all, but a failure":        {results: []resourceapi.DeviceRequestAllocationResult{gated("g")}, devices: []resourceapi.AllocatedDeviceStatus{reports("g", condition("a", isTrue), condition("b", isTrue), condition("y", isTrue))}, failure: "device d/p/g that y is true: m (R)", waitable: true},
		"unknown condition":         {results: []resourceapi.DeviceRequestAllocationResult{gated("g")}, devices: []resourceapi.AllocatedDeviceStatus{reports("g", condition("z", isTrue))}, pending: "device d/p/g lacks a, b", waitable: true},
		"of another device":         {results: []resourceapi.DeviceRequestAllocationResult{gated("g")}, devices: []resourceapi.AllocatedDeviceStatus{reports("h", condition("a", isTrue), condition("b", isTrue))}, pending: "device d/p/g lacks a, b", waitable: true},
		"of another pool":           {results: []resourceapi.DeviceRequestAllocationResult{gated("g")}, devices: []resourceapi.AllocatedDeviceStatus{otherPool}, pending: "device d/p/g lacks a, b", waitable: true},
		"of another driver":         {results: []resourceapi.DeviceRequestAllocationResult{gated("g")}, devices: []resourceapi.AllocatedDeviceStatus{otherDriver}, pending: "device d/p/g lacks a, b", waitable: true},
		"of the share":              {results: []resourceapi.DeviceRequestAllocationResult{shared}, devices: []resourceapi.AllocatedDeviceStatus{ofShare("other"), ofShare("share")}, ready: true, waitable: true},
		"of another share":          {results: []resourceapi.DeviceRequestAllocationResult{shared}, devices: []resourceapi.AllocatedDeviceStatus{ofShare("other")}, pending: "device d/p/s lacks a, b", waitable: true},
		"of no share":               {results: []resourceapi.DeviceRequestAllocationResult{shared}, devices: []resourceapi.AllocatedDeviceStatus{reports("s", condition("a", isTrue), condition("b", isTrue))}, pending: "device d/p/s lacks a, b", waitable: true},
		"failure of a later device": {results: []resourceapi.DeviceRequestAllocationResult{gated("g"), gated("h")}, devices: []resourceapi.AllocatedDeviceStatus{reports("h", condition("x", isTrue))}, pending: "device d/p/g lacks a, b; device d/p/h lacks a, b", failure: "device d/p/h that x is true", waitable: true},
		"one device ready":          {results: []resourceapi.DeviceRequestAllocationResult{gated("g"), gated("h")}, devices: []resourceapi.AllocatedDeviceStatus{reports("g", condition("a", isTrue), condition("b", isTrue))}, pending: "device d/p/h lacks a, b", waitable: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := gpus("c", 1).Allocated("p")
			claim.Status.Allocation.Devices.Results, claim.Status.Devices = test.results, test.devices
			require.Equal(t, test.waitable, hasBindingConditions(claim))
			devices := readinessOf(claim)
			require.Equal(t, test.ready, isReady(devices))
			require.Equal(t, test.pending, describePending(devices))
			err := bindingFailure(claim, devices)
			if test.failure == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, errBindingFailed)
			require.ErrorContains(t, err, test.failure)
		})
	}
	require.Empty(t, readinessOf(gpus("c", 1).Obj()), "not allocated")
	require.False(t, hasBindingConditions(gpus("c", 1).Obj()))
	require.True(t, isReady(readinessOf(with(gpus("c", 1).Allocated("p", "g"), func(c *resourceapi.ResourceClaim) {
		c.Status.Devices = []resourceapi.AllocatedDeviceStatus{{ShareID: ptr.To("x")}}
	}))))
}

// TestBrokenAllocation: an allocation that is there and will not get ready. It is
// deallocated if nobody else uses it, and the next attempt begins anew.
func TestBrokenAllocation(t *testing.T) {
	t.Parallel()
	const timeout = 10 * time.Minute // the default
	tests := map[string]struct {
		ago    time.Duration
		edits  []func(*resourceapi.ResourceClaim)
		reason string // why the node does not do, "" if it does
		freed  bool
	}{
		"waitable":                   {ago: timeout - time.Minute},
		"too late":                   {ago: timeout + time.Minute, reason: "device binding timeout: claim default/c: device gpu.example.com/n1/gpu-0 lacks attached within 10m0s", freed: true},
		"failed":                     {ago: time.Minute, edits: edits(report(broken)), reason: "device binding failed: claim default/c", freed: true},
		"late, then ready":           {ago: time.Hour, edits: edits(report(attached))},
		"too late, for the pod":      {ago: time.Hour, edits: edits(reservedFor("p")), reason: "device binding timeout", freed: true},
		"too late, others use it":    {ago: time.Hour, edits: edits(reservedFor("other")), reason: "device binding timeout"},
		"failed, others use it, too": {ago: time.Hour, edits: edits(report(broken), reservedFor("p", "other")), reason: "device binding failed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, plus(fabricNodes("n1", "n2"), newPod("p", uses("c"))), func(t *testing.T, f *fixture) {
				f.create(attachable(test.ago, test.edits...))
				f.settle()
				a := f.mustBegin(f.pod("p")).filter()
				if test.reason == "" {
					require.Equal(t, []string{"n1"}, a.feasible)
					return
				}
				require.Empty(t, a.feasible)
				require.Contains(t, a.reasons["n1"], test.reason)
				require.Equal(t, a.reasons["n1"], a.reasons["n2"], "the same for all nodes")
				_, status := f.pl.PostFilter(f.ctx, a.state, a.pod, nil)
				require.Equal(t, test.freed, status.IsSuccess(), "%v", status)
				f.settle()
				require.Equal(t, test.freed, f.claim("c").Status.Allocation == nil)
				if test.freed {
					require.Contains(t, status.Message(), test.reason)
					require.Empty(t, f.claim("c").Status.Devices)
					require.Contains(t, f.activator.names(), "default/p", "its update wakes the pod")
				}
			})
		})
	}
}

func edits(list ...func(*resourceapi.ResourceClaim)) []func(*resourceapi.ResourceClaim) { return list }

// TestBrokenAllocationIsLetGo: who waits for others to leave a broken claim is woken when
// they do.
func TestBrokenAllocationIsLetGo(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(fabricNodes("n1"), newPod("p", uses("c"))), func(t *testing.T, f *fixture) {
		f.create(attachable(time.Hour, reservedFor("other")))
		f.settle()
		require.Equal(t, "Filter", f.schedule(f.pod("p")).phase)
		f.changeClaim("c", func(claim *resourceapi.ResourceClaim) { claim.Status.ReservedFor = nil })
		f.settle()
		require.Contains(t, f.activator.names(), "default/p")
		require.Equal(t, "Filter", f.schedule(f.pod("p")).phase)
		f.settle()
		require.Nil(t, f.claim("c").Status.Allocation)
	})
}
