package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// A scheduler starts where another one crashed: every state that a crash can
// leave behind is written through the API, then the scheduler starts, and the
// pods have to run.
func TestResumeAfterCrash(t *testing.T) {
	harness.Long(t, "schedulers start after a crash at each of many points")
	t.Parallel()
	const devices = 6
	s := newOwnSpace(t, "resume", 2)
	for node := range 2 {
		s.Devices(node, numbered(devices)...)
	}
	ours := func(pod string) resourceapi.ResourceClaimConsumerReference {
		return resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: s.LivePod(pod).UID}
	}
	claimed := func(pod string, claims ...string) {
		for _, claim := range claims {
			s.Create(builder.Claim(claim, s.Want(1)).Obj())
		}
		s.Create(s.Pod(pod, builder.Uses(claims...)))
	}

	// Between the two writes: only the finalizer is there.
	claimed("protected", "protected")
	s.Protect("protected")
	// Between the last write and the binding.
	claimed("reserved", "reserved")
	s.allocateOn("reserved", 1, "gpu-5", ours("reserved"))
	// After the reservation was rolled back, before the next attempt.
	claimed("allocated", "allocated")
	s.allocateOn("allocated", 1, "gpu-4")
	// Between the claims of a pod: the first is done, the second is not.
	claimed("half", "half-done", "half-open")
	s.allocateOn("half-done", 0, "gpu-3", ours("half"))
	s.Protect("half-open")
	// A pod that shares a claim with one whose binding was cut short.
	claimed("sharing", "common")
	s.Create(s.Pod("partner", builder.Uses("common")))
	s.allocateOn("common", 0, "gpu-4", ours("sharing"))
	// Allocated for a pod where it cannot run.
	s.Create(builder.Claim("misplaced", s.Want(1)).Obj(), s.PodOnNode("misplaced", 1, builder.Uses("misplaced")))
	s.allocateOn("misplaced", 0, "gpu-5", ours("misplaced"))

	s.StartScheduler(harness.SchedulerOptions{})
	s.Running("protected", "reserved", "allocated", "half", "sharing", "partner", "misplaced")

	for pod, device := range map[string]string{
		"reserved": s.Node(1) + "/gpu-5", "allocated": s.Node(1) + "/gpu-4", "sharing": s.Node(0) + "/gpu-4", "partner": s.Node(0) + "/gpu-4",
	} {
		require.Equal(t, []string{device}, s.DeviceNames(pod), "pod %s has to keep what was allocated", pod)
	}
	require.Equal(t, s.Node(0)+"/gpu-3", s.DeviceNames("half")[0])
	require.Equal(t, s.Node(0), s.LivePod("half").Spec.NodeName)
	require.Equal(t, s.Node(1), s.LivePod("misplaced").Spec.NodeName)
	for _, claim := range []string{"protected", "half-open"} {
		require.Len(t, s.LiveClaim(claim).Finalizers, 1)
	}
	// Everything that is in use was known from the start, and nothing else is: what
	// is left of the devices can be had.
	require.Equal(t, 2*devices-7, s.NothingLeaked())
}
