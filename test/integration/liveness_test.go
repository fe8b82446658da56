package integration

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// TestLivenessIsChecked: at the end of each test, a pod that would fit and waits is complained about, as long as a scheduler
// runs for it: here one that does nothing any more. Who may wait is left out, and so is who does not fit.
func TestLivenessIsChecked(t *testing.T) {
	t.Parallel()
	s := newOwnSpace(t, "liveness", 1)
	scheduler := s.StartScheduler(harness.SchedulerOptions{})
	s.Devices(0, numbered(1)...)
	require.NoError(t, syscall.Kill(scheduler.PID(), syscall.SIGSTOP))
	t.Cleanup(func() { _ = syscall.Kill(scheduler.PID(), syscall.SIGCONT) })
	s.ClaimAndPod("fits", s.Want(1))
	s.ClaimAndPod("does-not", s.Want(2))
	s.Eventually("complain about the pod that fits", func(ctx context.Context) error {
		complaint := s.Violations(ctx)
		if complaint == nil || !strings.Contains(complaint.Error(), "PodCouldRun: pod "+s.Name+"/fits") {
			return fmt.Errorf("the complaint is %v", complaint)
		}
		require.NotContains(t, complaint.Error(), "does-not")
		return nil
	})
	s.MayWait("its scheduler is stopped", "fits")
	require.NoError(t, s.Settled(harness.Patience))

	require.NoError(t, syscall.Kill(scheduler.PID(), syscall.SIGCONT))
	s.Running("fits")
}
