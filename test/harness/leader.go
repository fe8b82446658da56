package harness

import (
	"context"
	"fmt"

	"github.com/stretchr/testify/require"
)

const shortLeaseDuration, shortRenewDeadline, shortRetryPeriod = "8s", "6s", "500ms"

// ShortLeaseFlags are flags of a kube-scheduler that say what ShortLease does. A process that cannot renew its lease in time ends, so a busy
// machine has to let it.
var ShortLeaseFlags = []string{
	"--leader-elect-lease-duration=" + shortLeaseDuration, "--leader-elect-renew-deadline=" + shortRenewDeadline, "--leader-elect-retry-period=" + shortRetryPeriod,
}

// ShortLease is a change of a KubeSchedulerConfiguration by which the next replica waits only a
// little for the end of a dead one's lease.
func ShortLease(config map[string]any) {
	election := config["leaderElection"].(map[string]any)
	election["leaseDuration"], election["renewDeadline"], election["retryPeriod"] = shortLeaseDuration, shortRenewDeadline, shortRetryPeriod
}

// EventuallyLeads waits until a replica leads. If another one is given, it must not.
func (s *Space) EventuallyLeads(leader, other *Scheduler) {
	s.T.Helper()
	s.Eventually("have one leader", func(ctx context.Context) error {
		leading, err := leader.leads(ctx)
		if err != nil || !leading {
			return fmt.Errorf("%s leads: %t (%v)", leader.LogFile(), leading, err)
		}
		if other == nil {
			return nil
		}
		leading, err = other.leads(ctx)
		if err != nil {
			return err
		}
		require.False(s.T, leading, "%s and %s both say that they lead", leader.LogFile(), other.LogFile())
		return nil
	})
}

// EventuallyEnds waits until a replica that has lost its lease has ended by itself.
func (s *Space) EventuallyEnds(replica *Scheduler) {
	s.T.Helper()
	s.Eventually("see the old leader end", func(context.Context) error {
		select {
		case <-replica.Done():
			return nil
		default:
			return fmt.Errorf("%s goes on", replica.LogFile())
		}
	})
}

// leads asks a replica whether it leads.
func (s *Scheduler) leads(ctx context.Context) (bool, error) {
	metrics, err := s.ReadMetrics(ctx)
	if err != nil {
		return false, err
	}
	return metrics.Sum("leader_election_master_status") == 1, nil
}
