package compat

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// Two unchanged kube-schedulers of the release have pods that want all devices of a node, again and again
// until a guard has denied what both would hand out. They look again, and bind all pods. That no device
// was ever allocated twice is checked at the end. This test runs alone: nobody can allocate while there
// is no guard.
func TestGuardedSchedulers(t *testing.T) {
	const (
		pods, waves       = 40, 10
		requestsPerSecond = 200
	)
	onlyStructured(t)
	guard := cluster.UseGuard(t, "guard")
	s := cluster.NewSpace(t, "guarded", "", 1)
	s.Devices(0, harness.Numbered(pods)...)
	s.Create(builder.Claim("one", s.Want(1)).Template())
	profiles := []string{s.Name + "-0", s.Name + "-1"}
	for _, profile := range profiles {
		stock, err := cluster.StartStockSchedulerFor(t.Context(), profile, profile, requestsPerSecond)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, stock.Stop()) })
	}
	allowed, denied := 0, 0
	for wave := range waves {
		var names []string
		for i := range pods {
			s.Profile = profiles[i%len(profiles)]
			names = append(names, fmt.Sprintf("user-%d-%02d", wave, i))
			s.Create(s.Pod(names[i], builder.FromTemplate("one")))
		}
		s.Running(names...)
		for _, name := range names {
			s.DeletePod(name)
		}
		for _, name := range names {
			s.Gone(name)
		}
		metrics, err := harness.ReadGuardMetrics(t.Context(), guard)
		require.NoError(t, err)
		answers := func(answer string) int {
			return metrics.Histogram("quartermaster_guard_review_duration_seconds", "allocates", "true", "answer", answer).Count()
		}
		allowed, denied = answers("allowed"), answers("denied")
		require.GreaterOrEqual(t, allowed, (wave+1)*pods, "each allocation was asked about")
		if denied > 0 {
			break
		}
	}
	t.Logf("%d allocations allowed, %d denied", allowed, denied)
	require.Positive(t, denied, "the two never wanted the same")
}
