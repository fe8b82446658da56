package binding

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// reports is the driver's report about one device.
func reports(device string, conditions ...metav1.Condition) resourceapi.AllocatedDeviceStatus {
	return resourceapi.AllocatedDeviceStatus{Driver: "d", Pool: "p", Device: device, Conditions: conditions}
}

func condition(name string, status metav1.ConditionStatus) metav1.Condition {
	return metav1.Condition{Type: name, Status: status, Reason: "R", Message: "m"}
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	gpu := func() *builder.ClaimBuilder { return builder.Claim("c", builder.Request("gpu", "gpu")) }
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
		"nothing reported":          {results: []resourceapi.DeviceRequestAllocationResult{gated("g")}, pending: "device d/p/g lacks a and b", waitable: true},
		"one of two":                {results: []resourceapi.DeviceRequestAllocationResult{gated("g")}, devices: []resourceapi.AllocatedDeviceStatus{reports("g", condition("b", isTrue))}, pending: "device d/p/g lacks a", waitable: true},
		"one is false":              {results: []resourceapi.DeviceRequestAllocationResult{gated("g")}, devices: []resourceapi.AllocatedDeviceStatus{reports("g", condition("a", isFalse), condition("b", isTrue))}, pending: "device d/p/g lacks a", waitable: true},
		"all":                       {results: []resourceapi.DeviceRequestAllocationResult{gated("g")}, devices: []resourceapi.AllocatedDeviceStatus{reports("g", condition("a", isTrue), condition("b", isTrue), condition("x", isFalse))}, ready: true, waitable: true},
		"all, but a failure":        {results: []resourceapi.DeviceRequestAllocationResult{gated("g")}, devices: []resourceapi.AllocatedDeviceStatus{reports("g", condition("a", isTrue), condition("b", isTrue), condition("y", isTrue))}, failure: "device d/p/g that y is true: m (R)", waitable: true},
		"unknown condition":         {results: []resourceapi.DeviceRequestAllocationResult{gated("g")}, devices: []resourceapi.AllocatedDeviceStatus{reports("g", condition("z", isTrue))}, pending: "device d/p/g lacks a and b", waitable: true},
		"of another device":         {results: []resourceapi.DeviceRequestAllocationResult{gated("g")}, devices: []resourceapi.AllocatedDeviceStatus{reports("h", condition("a", isTrue), condition("b", isTrue))}, pending: "device d/p/g lacks a and b", waitable: true},
		"of another pool":           {results: []resourceapi.DeviceRequestAllocationResult{gated("g")}, devices: []resourceapi.AllocatedDeviceStatus{otherPool}, pending: "device d/p/g lacks a and b", waitable: true},
		"of another driver":         {results: []resourceapi.DeviceRequestAllocationResult{gated("g")}, devices: []resourceapi.AllocatedDeviceStatus{otherDriver}, pending: "device d/p/g lacks a and b", waitable: true},
		"of the share":              {results: []resourceapi.DeviceRequestAllocationResult{shared}, devices: []resourceapi.AllocatedDeviceStatus{ofShare("other"), ofShare("share")}, ready: true, waitable: true},
		"of another share":          {results: []resourceapi.DeviceRequestAllocationResult{shared}, devices: []resourceapi.AllocatedDeviceStatus{ofShare("other")}, pending: "device d/p/s lacks a and b", waitable: true},
		"of no share":               {results: []resourceapi.DeviceRequestAllocationResult{shared}, devices: []resourceapi.AllocatedDeviceStatus{reports("s", condition("a", isTrue), condition("b", isTrue))}, pending: "device d/p/s lacks a and b", waitable: true},
		"failure of a later device": {results: []resourceapi.DeviceRequestAllocationResult{gated("g"), gated("h")}, devices: []resourceapi.AllocatedDeviceStatus{reports("h", condition("x", isTrue))}, pending: "device d/p/g lacks a and b; device d/p/h lacks a and b", failure: "device d/p/h that x is true", waitable: true},
		"one device ready":          {results: []resourceapi.DeviceRequestAllocationResult{gated("g"), gated("h")}, devices: []resourceapi.AllocatedDeviceStatus{reports("g", condition("a", isTrue), condition("b", isTrue))}, pending: "device d/p/h lacks a and b", waitable: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := gpu().Allocated("p")
			claim.Status.Allocation.Devices.Results, claim.Status.Devices = test.results, test.devices
			require.Equal(t, test.waitable, Has(claim))
			devices := readinessOf(claim)
			require.Equal(t, test.ready, isReady(devices))
			require.Equal(t, test.pending, describePending(devices))
			err := failure(claim, devices)
			if test.failure == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrFailed)
			require.ErrorContains(t, err, test.failure)
		})
	}
	require.Empty(t, readinessOf(gpu().Obj()), "not allocated")
	require.False(t, Has(gpu().Obj()))
	unconditional := gpu().Allocated("p", "g")
	unconditional.Status.Devices = []resourceapi.AllocatedDeviceStatus{{ShareID: ptr.To("x")}}
	require.True(t, isReady(readinessOf(unconditional)))
}

// TestEndOfTheTimeout: in the same moment, a wait ends and no other one is begun.
func TestEndOfTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claim := claimWith("c", map[string]string{"late": ""})
		claim.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: time.Now()}
		time.Sleep(time.Minute - 1)
		waiter := &Waiter{Timeout: time.Minute}
		require.NoError(t, waiter.Broken(claim))
		time.Sleep(time.Nanosecond)
		require.ErrorIs(t, waiter.Broken(claim), ErrTimeout)
		one := &wait{Waiter: waiter, begin: time.Now().Add(-time.Second)}
		require.True(t, isOver(one.deadline(claim)))
	})
}
