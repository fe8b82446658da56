package restarts

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// Only the replica that leads reports conflicts. When it is killed, the other one does.
func TestOnlyTheLeaderReportsConflicts(t *testing.T) {
	s := cluster.NewSpace(t, "conflicts", "", 1)
	s.Devices(0, harness.Numbered(1)...)
	leader := startReplica(s, "a")
	s.EventuallyLeads(leader, nil)
	standby := startReplica(s, "b")
	s.EventuallyLeads(leader, standby)

	s.ClaimAndPod("first", s.Want(1))
	runAll(s, 1)
	s.Create(builder.Claim("second", s.Want(1)).Obj())
	s.Protect("second")
	s.UpdateClaimStatus("second", func(claim *resourceapi.ResourceClaim) {
		claim.Status.Allocation = s.Claims("first")[0].Status.Allocation.DeepCopy()
	})
	eventuallyReports(s, leader, 1)
	require.Zero(t, conflictsOf(s, standby), "reported by the standby replica")

	require.NoError(t, leader.Kill())
	s.EventuallyLeads(standby, nil)
	eventuallyReports(s, standby, 1)

	s.Delete(builder.Claim("second", s.Want(1)).Obj())
	s.ClaimGone("second")
}

// eventuallyReports waits until a replica has reported so many conflicts.
func eventuallyReports(s *harness.Space, replica *harness.Scheduler, want float64) {
	s.T.Helper()
	s.Eventually("report the conflict", func(context.Context) error {
		if got := conflictsOf(s, replica); got != want {
			return fmt.Errorf("%s has reported %v conflicts", replica.LogFile(), got)
		}
		return nil
	})
}

func conflictsOf(s *harness.Space, replica *harness.Scheduler) float64 {
	s.T.Helper()
	metrics, err := replica.ReadMetrics(s.T.Context())
	require.NoError(s.T, err)
	return metrics.Sum("quartermaster_device_conflicts_total")
}
