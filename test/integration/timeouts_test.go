package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// What has a timeout, with schedulers whose arguments say how long that is.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	parallel(t, map[string]func(*testing.T){
		"binding":                    testBindingTimeout,
		"binding, recovery":          testBindingTimeoutRecovery,
		"binding, late":              testBindingLate,
		"binding, scheduler stopped": func(t *testing.T) { testBindingRestart(t, "stop", (*harness.Scheduler).Stop) },
		"binding, scheduler killed":  func(t *testing.T) { testBindingRestart(t, "kill", (*harness.Scheduler).Kill) },
		"binding, gate off":          testBindingGateOff,
		"filter":                     testFilterTimeout,
	})
}

// The pod says that its devices did not get ready, and is not bound.
func testBindingTimeout(t *testing.T) {
	s := newOwnSpace(t, "binding-timeout", 1)
	scheduler := s.StartScheduler(harness.SchedulerOptions{PluginArgs: map[string]any{"bindingTimeout": "2s"}})
	s.gatedSlice(0, "gpu-9")
	s.ClaimAndPod("p", s.Want(1))
	s.Waiting("p", "binding timeout", "device "+s.Driver+"/"+s.gatedPool(0)+"/gpu-9 lacks attached within 2s")
	s.notBound("p")
	// It is allocated again, with a new beginning of the time.
	s.holds("p", s.gatedPool(0)+"/gpu-9")
	s.counted(scheduler, "timeout")
	s.DeletePod("p")
	s.EventuallyFree("p")
}

// counted waits for what the in-tree plugin's metrics say about the driver of the space.
func (s *space) counted(scheduler *harness.Scheduler, status string) {
	s.T.Helper()
	labels := []string{"driver", s.Driver, "profile", s.Profile, "status", status}
	s.Eventually("count status "+status, func(ctx context.Context) error {
		metrics, err := scheduler.ReadMetrics(ctx)
		if err != nil {
			return err
		}
		for _, name := range []string{"scheduler_dra_bindingconditions_allocations_total", "scheduler_dra_bindingconditions_wait_duration_seconds_count"} {
			if metrics.Sum(name, labels...) < 1 {
				return fmt.Errorf("%s%v is 0", name, labels)
			}
		}
		return nil
	})
}

// A device that is ready takes the place of one that is not in time.
func testBindingTimeoutRecovery(t *testing.T) {
	s := newOwnSpace(t, "binding-recovery", 1)
	scheduler := s.StartScheduler(harness.SchedulerOptions{PluginArgs: map[string]any{"bindingTimeout": "4s"}})
	s.gatedSlice(0, "gpu-9")
	s.ClaimAndPod("p", s.Want(1))
	s.holds("p", s.gatedPool(0)+"/gpu-9")
	s.Devices(0, builder.Devices("gpu-0")...)
	s.RunningSoon("p")
	require.Equal(t, []string{s.Node(0) + "/gpu-0"}, s.DeviceNames("p"))
	s.counted(scheduler, "timeout")
}

// Another pod finds a claim that others still use, and that has taken too long: it waits.
// When the driver is done after all, it can use the claim.
func testBindingLate(t *testing.T) {
	s := newOwnSpace(t, "binding-late", 1)
	scheduler := s.StartScheduler(harness.SchedulerOptions{PluginArgs: map[string]any{"bindingTimeout": "1s"}})
	s.gatedSlice(0, "gpu-9")
	s.Create(builder.Claim("shared", s.Want(1)).Obj())
	s.Create(s.Pod("p", builder.Uses("shared")))
	s.holds("shared", s.gatedPool(0)+"/gpu-9")
	somebody := foreignConsumer("somebody")
	s.UpdateClaimStatus("shared", func(claim *resourceapi.ResourceClaim) {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, somebody)
	})
	s.Waiting("p", "binding timeout")
	require.NotNil(t, s.LiveClaim("shared").Status.Allocation, "somebody else uses it")
	s.reports("shared", attached)
	s.RunningSoon("p")
	s.counted(scheduler, "timeout")
	s.UpdateClaimStatus("shared", func(claim *resourceapi.ResourceClaim) {
		claim.Status.ReservedFor = slices.DeleteFunc(claim.Status.ReservedFor, func(c resourceapi.ResourceClaimConsumerReference) bool { return c.UID == somebody.UID })
	})
}

// A scheduler that starts goes on where the last one has ended: the claim keeps its
// device, and the time goes on as well.
func testBindingRestart(t *testing.T, name string, end func(*harness.Scheduler) error) {
	s := newOwnSpace(t, "binding-"+name, 1)
	scheduler := s.StartScheduler(harness.SchedulerOptions{})
	s.gatedSlice(0, "gpu-9")
	s.ClaimAndPod("p", s.Want(1))
	s.holds("p", s.gatedPool(0)+"/gpu-9")
	s.announced("p")
	before := s.LiveClaim("p").Status.Allocation
	require.NoError(t, end(scheduler))
	require.Equal(t, before, s.LiveClaim("p").Status.Allocation, "nothing is thrown away")
	require.Len(t, s.LiveClaim("p").Status.ReservedFor, 1)

	require.NoError(t, scheduler.Restart(t.Context()))
	s.notBound("p")
	s.reports("p", attached)
	s.RunningSoon("p")
	require.Equal(t, before, s.LiveClaim("p").Status.Allocation)
	s.counted(scheduler, "success")
}

// Without the gate such devices are not handed out, and nobody waits for those of others.
func testBindingGateOff(t *testing.T) {
	s := newOwnSpace(t, "binding-off", 1)
	s.StartScheduler(harness.SchedulerOptions{FeatureGates: map[string]bool{"DRADeviceBindingConditions": false}})
	s.gatedSlice(0, "gpu-9")
	s.ClaimAndPod("waits", s.Want(1))
	s.Waiting("waits", "DRADeviceBindingConditions")
	s.Create(builder.Claim("given", s.Want(1)).Obj())
	s.allocateGated("given", "gpu-9")
	s.Create(s.Pod("p", builder.Uses("given")))
	s.Running("p")
	s.DeletePod("waits")
}

// A search that did not end is no answer: the pod says so, and is tried again although
// nothing happens.
func testFilterTimeout(t *testing.T) {
	const attempts = 3
	s := newOwnSpace(t, "filter-timeout", 2)
	scheduler := s.StartScheduler(harness.SchedulerOptions{PluginArgs: map[string]any{"filterTimeout": "1ns"}})
	s.Devices(0, numbered(1)...)
	s.ClaimAndPod("p", s.Want(1))
	s.Waiting("p", "given up after 1ns (filterTimeout); trying again")
	s.Eventually("try the pod again", func(ctx context.Context) error {
		metrics, err := scheduler.ReadMetrics(ctx)
		if err == nil && metrics.Attempts("unschedulable") < attempts {
			err = fmt.Errorf("it was tried %d times", metrics.Attempts("unschedulable"))
		}
		return err
	})
	s.DeletePod("p")
}
