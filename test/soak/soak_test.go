package soak

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/plugins/quartermaster"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const (
	nodes          = 8
	devicesPerNode = 8
	// oursCount schedulers of ours share the devices with a stock one.
	oursCount = 3
	// moments are how often to look at what the schedulers need.
	moments = 6
)

// TestSoak has schedulers of ours report conflicts, and then evict as well.
func TestSoak(t *testing.T) {
	for name, policy := range map[string]quartermaster.ConflictPolicy{"report": quartermaster.ReportConflicts, "evict": quartermaster.EvictOnConflict} {
		t.Run(name, func(t *testing.T) { soak(t, name, policy) })
	}
}

func soak(t *testing.T, name string, policy quartermaster.ConflictPolicy) {
	s := cluster.NewSpace(t, "soak-"+name, "", nodes)
	for node := range nodes {
		s.Devices(node, harness.Numbered(devicesPerNode)...)
	}
	s.Create(builder.Claim("one", s.Want(1)).Template(),
		builder.Claim("two", s.Want(2)).Template())
	ours := startSchedulers(s, policy)
	evicts, enough := policy == quartermaster.EvictOnConflict, len(ours)
	if evicts {
		enough = 1
	}

	r := newReports(s, ours, enough)
	b := &blind{space: s, reports: r, profile: ours[0].Profile, evicts: evicts}
	c := newChurn(s, r, b, "one", "one", "two", shared)
	c.evicts = evicts
	for node := range nodes {
		c.pools = append(c.pools, []string{s.Slice(node).Obj().Name})
	}
	d := newDetective(s, r)
	u := newUsage(s, ours)
	ctx, stop := context.WithTimeout(t.Context(), duration(t)/2)
	defer stop()
	done := c.start(ctx)
	looking, stopLooking := context.WithCancel(t.Context())
	defer stopLooking()
	go d.run(looking)
	u.watch(ctx, duration(t)/2/moments)
	<-done // What is found in the end has to be reported as well.
	stopLooking()
	<-d.done

	t.Log(c)
	t.Log(d)
	require.NoError(t, c.err())
	require.Positive(t, b.made.Load(), "no conflict was made, reported and removed")
	for _, profile := range c.profiles {
		assert.Positive(t, c.bound[profile].Load(), "pods of %s that were bound", profile)
	}
	d.judge(t)
	u.judge(t)
	nothingLeaked(s, ours)
}

// startSchedulers starts all schedulers and returns those of ours.
func startSchedulers(s *harness.Space, policy quartermaster.ConflictPolicy) []*harness.Scheduler {
	s.T.Helper()
	stock, err := cluster.StartStockScheduler(s.T.Context(), "stock-"+s.Name)
	require.NoError(s.T, err)
	s.T.Cleanup(func() {
		require.NoError(s.T, stock.Err(), "the stock scheduler ended although nobody asked it to")
		require.NoError(s.T, stock.Stop())
	})
	var ours []*harness.Scheduler
	for i := range oursCount {
		ours = append(ours, s.StartScheduler(harness.SchedulerOptions{
			Profile:    fmt.Sprintf("%s-ours-%d", s.Name, i+1),
			PluginArgs: map[string]any{"onConflict": string(policy)},
		}))
	}
	return ours
}

// profilesOf returns the schedulerNames of all schedulers.
func profilesOf(ours []*harness.Scheduler) []string {
	profiles := []string{corev1.DefaultSchedulerName}
	for _, scheduler := range ours {
		profiles = append(profiles, scheduler.Profile)
	}
	return profiles
}

// nothingLeaked checks for each scheduler of ours that it knows all devices to be free.
func nothingLeaked(s *harness.Space, ours []*harness.Scheduler) {
	s.T.Helper()
	s.Eventually("see all pods and claims go", empty(s))
	for _, scheduler := range ours {
		s.Profile = scheduler.Profile
		require.Equal(s.T, nodes*devicesPerNode, s.NothingLeaked(), "devices that %s can give out", scheduler.Profile)
		s.Eventually("have no allocation in flight", func(ctx context.Context) error {
			metrics, err := scheduler.ReadMetrics(ctx)
			if left := metrics.Sum("quartermaster_allocations_in_flight"); err == nil && left > 0 {
				err = fmt.Errorf("%s has %v", scheduler.Profile, left)
			}
			return err
		})
		s.Eventually("see all fillers go", empty(s))
	}
}

// empty is nil when there is no pod and no claim.
func empty(s *harness.Space) func(context.Context) error {
	return func(ctx context.Context) error {
		if left := len(s.Pods()); left > 0 {
			return fmt.Errorf("%d pods are left", left)
		}
		claims, err := s.Cluster.Client.ResourceV1().ResourceClaims(s.Name).List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil && len(claims.Items) > 0 {
			err = fmt.Errorf("claim %s is left", claims.Items[0].Name)
		}
		return err
	}
}
