package soak

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/pkg/plugins/quartermaster"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// TestSoakGuarded is TestSoak with a guard, and with devices that draw on counters or have shares as
// well: nothing is ever handed out twice or overdrawn, by whichever scheduler.
func TestSoakGuarded(t *testing.T) {
	cluster.UseGuard(t, "guard")
	s := cluster.NewSpace(t, "soak-guarded", "", nodes)
	pools := publishAllKinds(s)
	ours := startSchedulers(s, quartermaster.ReportConflicts)
	for _, scheduler := range ours {
		s.Eventually("know of the guard", guardInPlace(scheduler))
	}
	thief := &thief{space: s}
	c := newChurn(s, newReports(s, ours, len(ours)), thief, "plain", "two-plain", "half", "quarter", "quarter", "share", "share", shared)
	c.pools = pools
	a, u := newAuditor(s), newUsage(s, ours)
	ctx, stop := context.WithTimeout(t.Context(), duration(t)/2)
	defer stop()
	done := c.start(ctx)
	looking, stopLooking := context.WithCancel(t.Context())
	defer stopLooking()
	go a.run(looking)
	u.watch(ctx, duration(t)/2/moments)
	<-done
	stopLooking()
	<-a.done

	t.Log(c)
	t.Log(a)
	require.NoError(t, c.err())
	a.judge(t)
	require.Positive(t, thief.denied.Load(), "nobody tried to allocate what others had")
	for _, profile := range c.profiles {
		assert.Positive(t, c.bound[profile].Load(), "pods of %s that were bound", profile)
	}
	u.judge(t)
	allFree(s, ours)
}

// guardInPlace is nil when a scheduler knows that a guard decides.
func guardInPlace(scheduler *harness.Scheduler) func(context.Context) error {
	return func(ctx context.Context) error {
		metrics, err := scheduler.ReadMetrics(ctx)
		if err == nil && metrics.Sum("quartermaster_guard_in_place") == 0 {
			err = errors.New("the scheduler knows of no guard")
		}
		return err
	}
}

const (
	// Of each node.
	plainDevices, quarters, shareHolders = 4, 4, 4
	link                                 = "bandwidth"
)

// publishAllKinds publishes on each node devices for one claim each, the partitions of one, and one
// that claims have shares of, in a pool of two slices; and makes the templates of claims for them. It
// returns the names of the slices of each pool.
func publishAllKinds(s *harness.Space) (pools [][]string) {
	s.T.Helper()
	for node := range nodes {
		var devices []*builder.DeviceBuilder
		for i := range plainDevices {
			devices = append(devices, builder.Device(fmt.Sprintf("plain-%d", i)).Attr("kind", "plain"))
		}
		for kind, count := range map[string]int{"half": quarters / 2, "quarter": quarters} {
			for i := range count {
				part := builder.Device(fmt.Sprintf("%s-%d", kind, i)).Attr("kind", kind)
				devices = append(devices, part.Consumes("gpu", "memory", fmt.Sprint(quarters/count)))
			}
		}
		devices = append(devices, builder.Device("nic").Attr("kind", "share").Shared().Capacity(link, fmt.Sprint(shareHolders)))
		counters := s.Slice(node).InPool(s.Node(node), 1, 2).Counters("gpu", "memory", fmt.Sprint(quarters)).Obj()
		counters.Name += "-counters"
		published := s.Slice(node, devices...).InPool(s.Node(node), 1, 2).Obj()
		s.Create(counters, published)
		pools = append(pools, []string{counters.Name, published.Name})
	}
	want := func(count int64, kind string) *builder.RequestBuilder {
		return s.Want(count, fmt.Sprintf("%s == %q", s.Attribute("kind"), kind))
	}
	s.Create(builder.Claim("plain", want(1, "plain")).Template(), builder.Claim("two-plain", want(2, "plain")).Template(),
		builder.Claim("half", want(1, "half")).Template(), builder.Claim("quarter", want(1, "quarter")).Template(),
		builder.Claim("share", want(1, "share").Capacity(link, "1")).Template())
	return pools
}

// allFree checks that all devices, counters and shares can be had again.
func allFree(s *harness.Space, ours []*harness.Scheduler) {
	s.T.Helper()
	s.Eventually("see all pods and claims go", empty(s))
	for kind, each := range map[string]int{"plain": plainDevices, "quarter": quarters, "share": shareHolders} {
		for i := range nodes * each {
			pod := s.Pod(fmt.Sprintf("last-%s-%d", kind, i), builder.FromTemplate(kind))
			pod.Spec.SchedulerName = ours[i%len(ours)].Profile
			s.Create(pod)
		}
	}
	all := nodes * (plainDevices + quarters + shareHolders)
	s.Eventually("have a pod on everything", func(context.Context) error {
		if n := s.Bound(); n < all {
			return fmt.Errorf("%d of %d pods are bound", n, all)
		}
		return nil
	})
	s.CheckSettled()
	for _, pod := range s.Pods() {
		s.DeletePod(pod.Name)
	}
	s.Eventually("see all pods and claims go again", empty(s))
}
