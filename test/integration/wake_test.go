package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/pkg/builder"
	"github.com/quartermaster-dra/quartermaster/pkg/playground/workload"
)

// Devices that become free wake the pod that waits for them, at once, and no pod
// that waits for others.
//
// The scheduler counts its attempts. So this test has one for itself, and does
// not run at the same time as others, whose events could wake pods as well.
func TestFreedDevicesWakeWhoWantsThem(t *testing.T) {
	s := newOwnSpace(t, "wake", 2)
	scheduler := s.startOwnScheduler(0)
	// Two kinds of devices of one driver, in different pools of one node.
	for _, kind := range []string{"disk", "gpu"} {
		s.create(workload.Class(s.name+"-"+kind, workload.OfDriver(s.driver), fmt.Sprintf("%s == %q", s.attribute("kind"), kind)))
		s.create(builder.Slice(s.name + "-" + kind).OfDriver(s.driver).OnNode(s.node(0)).
			Devices(builder.Device("only").Attr("kind", kind)).Obj())
		s.create(workload.Template(kind, workload.Request(kind, workload.Devices{Class: s.name + "-" + kind, Count: 1})))
		s.create(s.pod("holds-"+kind, fromTemplate(kind)))
		s.running("holds-" + kind)
		s.create(s.pod("wants-"+kind, fromTemplate(kind)))
		s.waiting("wants-"+kind, "request "+kind, "1 device matches, but it is held by another claim")
	}
	s.create(s.pod("wants-two-gpus", append(fromTemplate("gpu"), workload.Use{As: "second", Template: "gpu"})))
	s.waiting("wants-two-gpus")
	before := s.asleep(scheduler, 3)

	s.deletePod("holds-gpu")
	s.runningSoon("wants-gpu")
	after := s.asleep(scheduler, 2)
	require.Equal(t, before.attempts("scheduled")+1, after.attempts("scheduled"))
	// The pod that wants two GPUs was right to try, the one that wants a disk was not.
	require.LessOrEqual(t, after.attempts("unschedulable"), before.attempts("unschedulable")+1,
		"a pod was tried although nothing had happened that could help it; queues: %v", after.incoming())
	require.Equal(t, before.attempts("error"), after.attempts("error"))

	s.deletePod("holds-disk")
	s.runningSoon("wants-disk")
	last := s.asleep(scheduler, 1)
	require.Equal(t, after.attempts("scheduled")+1, last.attempts("scheduled"))
	require.Equal(t, after.attempts("unschedulable"), last.attempts("unschedulable"), "queues: %v", last.incoming())
}

// asleep waits until all but so many pods are out of the scheduler's hands and
// these wait for an event.
func (s *space) asleep(scheduler *scheduler, pods int) metrics {
	s.t.Helper()
	var found metrics
	s.eventually(fmt.Sprintf("have %d pods wait for an event", pods), func(context.Context) error {
		var err error
		if found, err = readMetrics(s.t, scheduler); err != nil {
			return err
		}
		if found.queued("unschedulable") != pods || found.queued("active")+found.queued("backoff")+found.queued("gated") != 0 {
			return fmt.Errorf("unschedulable %d, active %d, backoff %d, gated %d", found.queued("unschedulable"),
				found.queued("active"), found.queued("backoff"), found.queued("gated"))
		}
		return nil
	})
	return found
}

// incoming are the events by which pods got into the queues.
func (m metrics) incoming() map[string]float64 {
	counts := map[string]float64{}
	for sample, value := range m {
		if strings.HasPrefix(sample, "scheduler_queue_incoming_pods_total{") {
			counts[sample] = value
		}
	}
	return counts
}
