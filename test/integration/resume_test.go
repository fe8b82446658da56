package integration

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
)

// A scheduler starts where another one crashed: every state that a crash can
// leave behind is written through the API, then the scheduler starts, and the
// pods have to run.
func TestResumeAfterCrash(t *testing.T) {
	t.Parallel()
	const devices = 6
	s := newOwnSpace(t, "resume", 2)
	for node := range 2 {
		s.devices(node, numbered(devices)...)
	}
	ours := func(pod string) resourceapi.ResourceClaimConsumerReference {
		return resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: s.livePod(pod).UID}
	}
	claimed := func(pod string, claims ...string) {
		for _, claim := range claims {
			s.create(one(claim, s.want(1)))
		}
		s.create(s.pod(pod, uses(claims...)))
	}

	// Between the two writes: only the finalizer is there.
	claimed("protected", "protected")
	s.protect("protected")
	// Between the last write and the binding.
	claimed("reserved", "reserved")
	s.allocateOn("reserved", 1, "gpu-5", ours("reserved"))
	// After the reservation was taken back, before the next attempt.
	claimed("allocated", "allocated")
	s.allocateOn("allocated", 1, "gpu-4")
	// Between the claims of a pod: the first is done, the second is not.
	claimed("half", "half-done", "half-open")
	s.allocateOn("half-done", 0, "gpu-3", ours("half"))
	s.protect("half-open")
	// A pod that shares a claim with one whose binding was cut short.
	claimed("sharing", "common")
	s.create(s.pod("partner", uses("common")))
	s.allocateOn("common", 0, "gpu-4", ours("sharing"))
	// Allocated for a pod where it cannot run.
	s.create(one("misplaced", s.want(1)), s.podOnNode("misplaced", 1, uses("misplaced")))
	s.allocateOn("misplaced", 0, "gpu-5", ours("misplaced"))

	s.startOwnScheduler(0)
	s.running("protected", "reserved", "allocated", "half", "sharing", "partner", "misplaced")

	for pod, device := range map[string]string{
		"reserved": s.node(1) + "/gpu-5", "allocated": s.node(1) + "/gpu-4", "sharing": s.node(0) + "/gpu-4", "partner": s.node(0) + "/gpu-4",
	} {
		require.Equal(t, []string{device}, s.deviceNames(pod), "pod %s has to keep what was allocated", pod)
	}
	require.Equal(t, s.node(0)+"/gpu-3", s.deviceNames("half")[0])
	require.Equal(t, s.node(0), s.livePod("half").Spec.NodeName)
	require.Equal(t, s.node(1), s.livePod("misplaced").Spec.NodeName)
	for _, claim := range []string{"protected", "half-open"} {
		require.Len(t, s.liveClaim(claim).Finalizers, 1)
	}
	// Everything that is in use was known from the start, and nothing else is: what
	// is left of the devices can be had.
	s.fillUp(2*devices - 7)
}

// fillUp takes all devices that should be free, and checks that there is not one more.
func (s *space) fillUp(free int) {
	s.t.Helper()
	var names []string
	for i := range free {
		name := fmt.Sprintf("filler-%d", i)
		s.claimAndPod(name, s.want(1))
		names = append(names, name)
	}
	s.running(names...)
	s.claimAndPod("surplus", s.want(1))
	s.waiting("surplus", "request gpu", "held by")
	holders := map[string]string{}
	s.eventually("have every device held once", func(context.Context) error {
		clear(holders)
		for _, pod := range s.pods() {
			for _, claim := range s.claims(pod.Name) {
				if claim.Status.Allocation == nil {
					continue
				}
				for _, result := range claim.Status.Allocation.Devices.Results {
					device := result.Pool + "/" + result.Device
					if other, found := holders[device]; found && other != claim.Name {
						return fmt.Errorf("device %s is held by claims %s and %s", device, other, claim.Name)
					}
					holders[device] = claim.Name
				}
			}
		}
		return nil
	})
}
