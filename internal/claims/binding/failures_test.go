package binding

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// claimWith returns a claim with a device for each condition that the driver reports, "" for none.
func claimWith(uid types.UID, reports map[string]string) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{UID: uid}, Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{}}}
	for device, condition := range reports {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Driver: "d", Pool: "p", Device: device, BindingConditions: []string{"ready"}, BindingFailureConditions: []string{"broken"},
		})
		if condition != "" {
			claim.Status.Devices = append(claim.Status.Devices, resourceapi.AllocatedDeviceStatus{
				Driver: "d", Pool: "p", Device: device, Conditions: []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue}},
			})
		}
	}
	return claim
}

func deviceOf(name string) Device { return Device{inventory.PoolID{Driver: "d", Name: "p"}, name} }

func TestFailuresAreRemembered(t *testing.T) {
	t.Parallel()
	clock := testingclock.NewFakePassiveClock(time.Unix(1000, 0))
	f := NewFailures(clock)
	require.Nil(t, f.Of("pod", "claim"))

	f.Note("pod", claimWith("claim", map[string]string{"failed": "broken", "late": "", "fine": "ready"}))
	want := map[Device]int{deviceOf("failed"): 1}
	require.Equal(t, want, f.Of("pod"))
	require.Equal(t, want, f.Of("claim"), "another pod that uses the claim")
	require.Equal(t, want, f.Of("pod", "claim"), "it has failed once")
	require.Nil(t, f.Of("other"))

	f.Note("pod", claimWith("again", map[string]string{"failed": "broken"}))
	f.Note("pod", claimWith("again", map[string]string{"late": "", "fine": "ready"}))
	require.Equal(t, map[Device]int{deviceOf("failed"): 2, deviceOf("late"): 1}, f.Of("pod", "again"))

	clock.SetTime(clock.Now().Add(remembered))
	require.Nil(t, f.Of("pod", "claim", "again"), "too long ago")
}

// TestFailuresOfOthers: the failure that another process has noted counts once, also if other devices of the claim have failed before.
func TestFailuresOfOthers(t *testing.T) {
	t.Parallel()
	f := NewFailures(testingclock.NewFakePassiveClock(time.Unix(1000, 0)))
	f.Note("pod", claimWith("claim", map[string]string{"first": "broken"}))
	for range 3 {
		f.NoteUnknown("pod", claimWith("claim", map[string]string{"second": "broken"}))
	}
	require.Equal(t, map[Device]int{deviceOf("first"): 1, deviceOf("second"): 1}, f.Of("claim"))
}

func TestFailuresAreForgottenWithThePod(t *testing.T) {
	t.Parallel()
	f := NewFailures(testingclock.NewFakePassiveClock(time.Unix(1000, 0)))
	f.Note("pod", claimWith("claim", map[string]string{"failed": "broken"}))
	f.Forget("pod")
	require.Nil(t, f.Of("pod"))
}

func TestFailuresAreBounded(t *testing.T) {
	t.Parallel()
	clock := testingclock.NewFakePassiveClock(time.Unix(1000, 0))
	f := NewFailures(clock)
	for i := range 2 * mostFailing {
		f.Note(types.UID(fmt.Sprintf("pod-%d", i)), claimWith(types.UID(fmt.Sprintf("claim-%d", i)), map[string]string{"failed": "broken"}))
	}
	require.Equal(t, mostFailing, f.of.Len())
	for i := range 2 * mostDevices {
		f.Note("pod", claimWith("claim", map[string]string{fmt.Sprintf("failed-%d", i): "broken"}))
	}
	known := f.Of("pod")
	require.Len(t, known, mostDevices)
	require.Contains(t, known, deviceOf(fmt.Sprintf("failed-%d", 2*mostDevices-1)), "the latest ones")
}
