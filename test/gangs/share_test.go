package gangs

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const (
	shareNodes, shareDevices = 3, 16
	// waitingGangs is how many gangs cannot run, for singlePods pods of others that come and go.
	waitingGangs, singlePods = 30, 80
)

// TestWaitingGangsLeaveTheTime: gangs cannot run, each for lack of one node, and each device that a pod of others gives back might help
// them. All attempts that find no node are for gangs here, so what these take of the time is not there for others; how many pods of others
// run meanwhile is logged, and so is the share of the scheduler's time that the gangs take; internal/gang/crd/coordinator bounds that
// in virtual time (TestShareOfPlanning).
func TestWaitingGangsLeaveTheTime(t *testing.T) {
	harness.Long(t, "many gangs wait while others run")
	t.Parallel()
	s := newSpace(t, "share", true, shareNodes, shareDevices)
	scheduler := s.StartScheduler(harness.SchedulerOptions{QPS: 1000})
	alone, _ := s.comeAndGoBeside(scheduler, "alone")

	s.Create(builder.Claim("all", s.manyWays()...).Template())
	for i := range waitingGangs {
		name := fmt.Sprintf("large-%d", i)
		s.group(name, shareNodes+1)
		for member := range shareNodes + 1 {
			s.Create(in(name, s.Pod(fmt.Sprintf("%s-%d", name, member), builder.FromTemplate("all"))))
		}
	}
	s.Eventually("have each gang tried", func(ctx context.Context) error {
		told := 0
		for _, pod := range s.Pods() {
			if len(pod.Status.Conditions) > 0 {
				told++
			}
		}
		if told < waitingGangs*(shareNodes+1) {
			return fmt.Errorf("%d pods know why they wait", told)
		}
		return nil
	})
	beside, share := s.comeAndGoBeside(scheduler, "beside")
	t.Logf("%.1f pods of others a second alone, %.1f beside %d gangs that wait, which took %.3f of the time", alone, beside, waitingGangs, share)
}

// manyWays asks for all devices of a node, one after the other and each in many ways, so that planning takes long.
func (s *space) manyWays() (requests []*builder.RequestBuilder) {
	for i := range shareDevices {
		var alternatives []*builder.RequestBuilder
		for j := range 8 {
			where := fmt.Sprintf("%s < %d", s.Attribute("index"), shareDevices+8*i+j)
			alternatives = append(alternatives, s.Want(1, where).Named(fmt.Sprintf("s%d", j)))
		}
		requests = append(requests, builder.FirstAvailable(fmt.Sprintf("r%d", i), alternatives...))
	}
	return requests
}

// comeAndGoBeside has pods of others come and go, and returns how many ran in a second and the share of the time that attempts took which
// found no node.
func (s *space) comeAndGoBeside(scheduler *harness.Scheduler, name string) (perSecond, share float64) {
	s.T.Helper()
	begun, before := time.Now(), s.inVain(scheduler)
	const lanes = 4
	var all sync.WaitGroup
	for lane := range lanes {
		all.Go(func() {
			for i := range singlePods / lanes {
				pod := fmt.Sprintf("%s-%d-%d", name, lane, i)
				s.ClaimAndPod(pod, s.Want(1))
				s.Running(pod)
				s.deletePods(pod)
			}
		})
	}
	all.Wait()
	took := time.Since(begun).Seconds()
	return singlePods / took, (s.inVain(scheduler) - before) / took
}

// inVain is for how many seconds the scheduler has tried pods that found no node.
func (s *space) inVain(scheduler *harness.Scheduler) (seconds float64) {
	s.T.Helper()
	s.Eventually("read the scheduler's metrics", func(ctx context.Context) error {
		metrics, err := scheduler.ReadMetrics(ctx)
		seconds = metrics.Sum("scheduler_scheduling_attempt_duration_seconds_sum", "result", "unschedulable")
		return err
	})
	return seconds
}
