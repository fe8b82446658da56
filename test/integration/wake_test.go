package integration

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// Devices that become free wake the pod that waits for them, at once, and no pod
// that waits for others.
//
// The scheduler counts its attempts. So this test has one for itself, and does
// not run at the same time as others, whose events could wake pods as well.
func TestFreedDevicesWakeWhoWantsThem(t *testing.T) {
	s := newOwnSpace(t, "wake", 2)
	scheduler := s.StartScheduler(harness.SchedulerOptions{})
	// Two kinds of devices of one driver, in different pools of one node.
	for _, kind := range []string{"disk", "gpu"} {
		s.Create(builder.Class(s.Name+"-"+kind, builder.OfDriver(s.Driver), fmt.Sprintf("%s == %q", s.Attribute("kind"), kind)))
		s.Create(builder.Slice(s.Name + "-" + kind).OfDriver(s.Driver).OnNode(s.Node(0)).
			Devices(builder.Device("only").Attr("kind", kind)).Obj())
		s.Create(builder.Claim(kind, builder.Request(kind, s.Name+"-"+kind)).Template())
		s.Create(s.Pod("holds-"+kind, builder.FromTemplate(kind)))
		s.Running("holds-" + kind)
		s.Create(s.Pod("wants-"+kind, builder.FromTemplate(kind)))
		s.Waiting("wants-"+kind, "request "+kind, "1 device matches: 1 asked; 0 free; 1 held by another claim")
	}
	s.Create(s.Pod("wants-two-gpus", append(builder.FromTemplate("gpu"), corev1.PodResourceClaim{Name: "second", ResourceClaimTemplateName: ptr.To("gpu")})))
	s.Waiting("wants-two-gpus")
	before := s.asleep(scheduler, 3, 2)

	s.DeletePod("holds-gpu")
	s.RunningSoon("wants-gpu")
	after := s.asleep(scheduler, 2, 3)
	require.Equal(t, before.Attempts("scheduled")+1, after.Attempts("scheduled"))
	// The pod that wants two GPUs was right to try, the one that wants a disk was not.
	require.LessOrEqual(t, after.Attempts("unschedulable"), before.Attempts("unschedulable")+1,
		"a pod was tried although nothing had happened that could help it; queues: %v", incoming(after))
	require.Equal(t, before.Attempts("error"), after.Attempts("error"))

	s.DeletePod("holds-disk")
	s.RunningSoon("wants-disk")
	last := s.asleep(scheduler, 1, 4)
	require.Equal(t, after.Attempts("scheduled")+1, last.Attempts("scheduled"))
	require.Equal(t, after.Attempts("unschedulable"), last.Attempts("unschedulable"), "queues: %v", incoming(last))
}

// asleep waits until all but so many pods are out of the scheduler's hands and
// these wait for an event. Pods may run before the scheduler has counted that it
// has scheduled them.
func (s *space) asleep(scheduler *harness.Scheduler, pods, scheduled int) harness.Metrics {
	s.T.Helper()
	var found harness.Metrics
	s.Eventually(fmt.Sprintf("have %d pods wait for an event", pods), func(context.Context) error {
		var err error
		if found, err = scheduler.ReadMetrics(s.T.Context()); err != nil {
			return err
		}
		if found.Queued("unschedulable") != pods || found.Queued("active")+found.Queued("backoff")+found.Queued("gated") != 0 {
			return fmt.Errorf("unschedulable %d, active %d, backoff %d, gated %d", found.Queued("unschedulable"),
				found.Queued("active"), found.Queued("backoff"), found.Queued("gated"))
		}
		if n := found.Attempts("scheduled"); n < scheduled {
			return fmt.Errorf("%d pods were scheduled", n)
		}
		return nil
	})
	return found
}

// incoming are the events by which pods got into the queues.
func incoming(m harness.Metrics) map[string]float64 {
	counts := map[string]float64{}
	for sample := range m.Samples("scheduler_queue_incoming_pods_total") {
		counts[sample.Metric.String()] = float64(sample.Value)
	}
	return counts
}
