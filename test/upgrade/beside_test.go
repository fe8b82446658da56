package upgrade

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const (
	// rounds are how often two schedulers contend for all devices.
	rounds = 3
	// contended is how many devices there are, one for each pod and for each claim that two share.
	contended, sharedByBoth = 80, 10
)

// TestSideBySide: schedulers of the two releases, each with pods of its own, want the same devices at the same time, just as
// many as there are. Some claims are used by a pod of each. No device is had twice, all pods run, and neither takes the
// other for one that does not take part in the protocol.
func TestSideBySide(t *testing.T) {
	needsPrevious(t, "scheduler")
	t.Parallel()
	s := &space{Space: cluster.NewSpace(t, "beside", "", 10)}
	s.Patience = harness.TakeoverPatience
	for node := range 10 {
		s.Devices(node, harness.Numbered(contended/10)...)
	}
	s.Create(builder.Claim("one", s.Want(1)).Template())
	profiles := map[release]string{previous: s.Name + "-previous", ours: s.Name + "-ours"}
	schedulers := make(map[release]*harness.Scheduler)
	for r, profile := range profiles {
		o := r.options(t, s.Name)
		o.Profile = profile
		schedulers[r] = s.StartScheduler(o)
	}
	t.Logf("side by side: %s", areDifferent(t, schedulers[previous], schedulers[ours]))
	both := []string{profiles[previous], profiles[ours]}
	held := harness.WatchHolders(s.Space)
	for round := range rounds {
		for i := range sharedByBoth {
			name := fmt.Sprintf("both-%d-%d", round, i)
			s.Create(builder.Claim(name, s.Want(1)).Obj())
			for n, profile := range both {
				pod := s.Pod(fmt.Sprintf("%s-%d", name, n), builder.Uses(name))
				pod.Spec.SchedulerName = profile
				s.Create(pod)
			}
		}
		s.createPods(fmt.Sprintf("own-%d", round), contended-sharedByBoth, both)
		s.runAll(contended + sharedByBoth)
		s.CheckSettled()
		s.goesAway()
		s.deleteClaims()
	}
	allocations, twice := held.Seen()
	t.Logf("%d allocations, %d of a device that another claim had at that moment, before one of them yielded", allocations, len(twice))
	for r, scheduler := range schedulers {
		metrics, err := scheduler.ReadMetrics(t.Context())
		require.NoError(t, err)
		t.Logf("%s has rolled back %v claims", r, metrics.Sum("quartermaster_rollbacks_total"))
		require.Zero(t, metrics.Sum("quartermaster_rollbacks_total", "allocated_by", "other"), "%s took the other for a stranger", r)
		require.Zero(t, metrics.Sum("quartermaster_device_conflicts_total"), "%s has reported conflicts", r)
	}
}
