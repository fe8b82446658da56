package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// The scheduler gets killed while it hands out shares of devices and partitions. The
// next one knows what is in use: it fills both exactly, and not more.
func TestKilledWithSharesAndCountersInUse(t *testing.T) {
	harness.Long(t, "schedulers are killed and start again")
	t.Parallel()
	const (
		shares, quarters = 20, 16 // as many as there is room for
		atFirst          = 10     // of each before the scheduler dies
		requestsPerSec   = 20
	)
	s := newOwnSpace(t, "killedshares", 2)
	s.Devices(1, nic("nic-0", "30G", nil).Attr("size", "any"), nic("nic-1", "30G", nil).Attr("size", "any"))
	s.gpuPool(quarters / 4)
	s.Create(builder.Claim("share", s.wantShare("3G").Where("device.allowMultipleAllocations")).Template(), builder.Claim("quarter", s.ofSize("10Gi", 1)).Template())
	create := func(first, count int) {
		for i := first; i < first+count; i++ {
			s.Create(s.Pod(fmt.Sprintf("share-%d", i), builder.FromTemplate("share")), s.Pod(fmt.Sprintf("quarter-%d", i), builder.FromTemplate("quarter")))
		}
	}
	scheduler := s.StartScheduler(harness.SchedulerOptions{QPS: requestsPerSec})
	allow := s.RefuseBindings("request.name in ['share-8', 'quarter-9']")
	create(0, atFirst)
	s.Eventually("bind some pods", func(context.Context) error {
		if bound := s.Bound(); bound < atFirst/2 {
			return fmt.Errorf("%d pods are bound", bound)
		}
		return nil
	})
	require.NoError(t, scheduler.Kill())
	require.Less(t, s.Bound(), 2*atFirst, "two of the pods cannot be bound")
	allow()
	require.NoError(t, scheduler.Restart(t.Context()))

	create(atFirst, shares)
	s.Eventually("use up the NICs", s.runningOf("share", shares))
	s.Eventually("use up the GPUs", s.runningOf("quarter", quarters))
	s.Eventually("have the rest wait", s.waitingOf("share", atFirst, "too little capacity left (bandwidth:"))
	s.Eventually("have the rest wait", s.waitingOf("quarter", atFirst+shares-quarters, "held by other claims"))
}

// runningOf is nil if exactly so many pods run of those whose names begin like that.
func (s *space) runningOf(prefix string, want int) func(context.Context) error {
	return func(context.Context) error {
		running := 0
		for _, pod := range s.Pods() {
			if strings.HasPrefix(pod.Name, prefix+"-") && s.Runs(pod) == nil {
				running++
			}
		}
		if running != want {
			return fmt.Errorf("%d run", running)
		}
		return nil
	}
}

// waitingOf is nil if exactly so many pods wait, for a reason with that text.
func (s *space) waitingOf(prefix string, want int, reason string) func(context.Context) error {
	return func(context.Context) error {
		waiting := 0
		var last error
		for _, pod := range s.Pods() {
			if !strings.HasPrefix(pod.Name, prefix+"-") {
				continue
			}
			if err := harness.Waits(pod, reason); err != nil {
				last = err
				continue
			}
			waiting++
		}
		if waiting != want {
			return fmt.Errorf("%d wait for %q; of the others, for instance: %v", waiting, reason, last)
		}
		return nil
	}
}
