package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/scheduler"
)

const (
	guardedNodes, guardedDevices = 5, 8
	// A wave of pods wants all devices.
	wavePods = guardedNodes * guardedDevices
	stockQPS = 200
)

// TestGuards: the guard is upgraded and rolled back while schedulers of both releases and a kube-scheduler want the same
// devices: guards of both run, and the one that decides is stopped, killed and paused in turn. Nothing is stored without
// one of them, so no device is ever had twice. Each scheduler sees that a guard of its own release is in place: what the API
// servers are to ask about differs.
func TestGuards(t *testing.T) {
	needsPrevious(t, "scheduler", "guard")
	require.NoError(t, cluster.InstallGuard(t.Context(), admissionregistrationv1.Fail))
	g := &guards{t: t}
	t.Cleanup(g.remove)
	g.start(previous)
	g.start(ours)
	s := &space{Space: cluster.NewSpace(t, "guarded", "", guardedNodes)}
	s.Patience = harness.TakeoverPatience
	for node := range guardedNodes {
		s.Devices(node, harness.Numbered(guardedDevices)...)
	}
	s.Create(builder.Claim("one", s.Want(1)).Template())
	held := harness.WatchHolders(s.Space)
	schedulers, profiles := s.startGuarded()

	ways := []string{"stopped", "killed", "paused", "killed"}
	for wave := range len(ways) + 1 {
		decider, err := g.decider(nil)
		require.NoError(t, err)
		own := g.releases[decider]
		s.seesGuard(own, schedulers[own])
		s.createPods(fmt.Sprintf("wave-%d", wave), wavePods, profiles)
		if wave < len(ways) {
			s.bindAtLeast(wavePods / 4)
			t.Logf("wave %d: the guard of %s is %s with %d of %d pods bound", wave, g.releases[decider], ways[wave], s.Bound(), wavePods)
			require.NoError(t, g.replace(decider, ways[wave]))
		}
		s.runAll(wavePods)
		s.goesAway()
	}
	allocations, twice := held.Seen()
	require.Empty(t, twice)
	require.GreaterOrEqual(t, allocations, (len(ways)+1)*wavePods, "the watch has to have seen them")
	t.Logf("%d allocations", allocations)
}

// startGuarded starts a scheduler of each release and a kube-scheduler, and returns the scheduler names of all.
func (s *space) startGuarded() (schedulers map[release]*harness.Scheduler, profiles []string) {
	s.T.Helper()
	schedulers = make(map[release]*harness.Scheduler)
	for _, r := range []release{previous, ours} {
		o := r.options(s.T, s.Name)
		o.Profile = s.Name + "-" + string(r)
		schedulers[r] = s.StartScheduler(o)
		profiles = append(profiles, o.Profile)
	}
	name := s.Name + "-stock"
	stock, err := cluster.StartStockSchedulerFor(s.T.Context(), name, name, stockQPS)
	require.NoError(s.T, err)
	s.T.Cleanup(func() { require.NoError(s.T, stock.Stop()) })
	return schedulers, append(profiles, name)
}

// seesGuard waits until a scheduler sees that a guard is in place.
func (s *space) seesGuard(r release, scheduler *harness.Scheduler) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("have the scheduler of %s see the guard", r), func(ctx context.Context) error {
		metrics, err := scheduler.ReadMetrics(ctx)
		if err == nil && metrics.Sum("quartermaster_guard_in_place") != 1 {
			err = errors.New("its metric quartermaster_guard_in_place is not 1")
		}
		return err
	})
}

// guards are one of each release.
type guards struct {
	t         *testing.T
	processes []*scheduler.Process
	releases  map[*scheduler.Process]release
}

func (g *guards) start(r release) {
	g.t.Helper()
	process, err := cluster.StartGuardOf(g.t.Context(), r.binary("guard"), "guard-"+string(r), slices.Clone(harness.ShortGuardLease)...)
	require.NoError(g.t, err)
	if g.releases == nil {
		g.releases = make(map[*scheduler.Process]release)
	}
	g.processes, g.releases[process] = append(g.processes, process), r
}

// remove has API servers ask no guard any more.
func (g *guards) remove() {
	require.NoError(g.t, cluster.RemoveGuard(context.WithoutCancel(g.t.Context())))
	for _, process := range g.processes {
		require.NoError(g.t, process.Err(), "the guard ended although nobody asked it to")
		require.NoError(g.t, process.Stop())
	}
}

// decider waits until one of the guards, but for one, decides and is asked.
func (g *guards) decider(without *scheduler.Process) (found *scheduler.Process, err error) {
	err = harness.Poll(g.t.Context(), harness.Patience, func(ctx context.Context) error {
		var errs []error
		for _, process := range g.processes {
			if process == without {
				continue
			}
			err := harness.GuardDecides(ctx, process)
			if err == nil {
				found = process
				return cluster.GuardIsAsked(ctx, process)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	return found, err
}

// replace ends or pauses the guard that decides until the other one does, and has it go on.
func (g *guards) replace(decider *scheduler.Process, way string) error {
	back := sync.OnceValue(func() error { return decider.Restart(g.t.Context()) })
	end := decider.Stop
	switch way {
	case "killed":
		end = decider.Kill
	case "paused":
		end = func() error { return syscall.Kill(decider.PID(), syscall.SIGSTOP) }
		back = sync.OnceValue(func() error { return syscall.Kill(decider.PID(), syscall.SIGCONT) })
		defer func() { _ = back() }()
	}
	if err := end(); err != nil {
		return err
	}
	if _, err := g.decider(decider); err != nil {
		return fmt.Errorf("the guard of %s is %s: %w", g.releases[decider], way, err)
	}
	if err := back(); err != nil {
		return err
	}
	if err := harness.GuardDecides(g.t.Context(), decider); err == nil {
		return fmt.Errorf("the guard of %s was %s for longer than its Lease, and still decides", g.releases[decider], way)
	}
	return nil
}
