package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
)

// burst is what it came to that pods were created at once, in one or several rounds.
type burst struct {
	pods, rounds int
	// elapsed is from the creation of the first pod until the last one was scheduled; cpu
	// is the scheduler's until it is at rest again.
	elapsed, cpu time.Duration
	cycles       histogram
	// others is CPU time of processes that have nothing to do with it, machine that of all
	// cores, used or not. They say how far to trust the rest.
	others, machine time.Duration
}

func (b burst) throughput() float64 { return float64(b.pods) / b.elapsed.Seconds() }

// cpuSeconds is that of one round.
func (b burst) cpuSeconds() float64 { return b.cpu.Seconds() / float64(b.rounds) }

// othersPercent is the share of the machine that others used.
func (b burst) othersPercent() float64 { return 100 * ratio(b.others.Seconds(), b.machine.Seconds()) }

func (b burst) plus(other burst) (_ burst, err error) {
	b.pods += other.pods
	b.rounds += other.rounds
	b.elapsed += other.elapsed
	b.cpu += other.cpu
	b.others += other.others
	b.machine += other.machine
	b.cycles, err = b.cycles.plus(other.cycles)
	return b, err
}

// disturbance does something to the cluster while pods are scheduled. It ends by itself
// once all are, which closes scheduled, and leaves the cluster as it was.
type disturbance func(ctx context.Context, scheduled <-chan struct{}) error

// compare alternates quiet bursts and those that are disturbed. A disturbance is asked for anew in
// each round, so that what it needs to know beforehand does not count.
func (s *session) compare(ctx context.Context, name string, pods int, prepare func(context.Context) (disturbance, error)) (quiet, disturbed burst, err error) {
	for round := range s.options.rounds {
		got, err := s.burst(ctx, pods, nil, "")
		if err != nil {
			return quiet, disturbed, fmt.Errorf("without a disturbance: %w", err)
		}
		if quiet, err = quiet.plus(got); err != nil {
			return quiet, disturbed, err
		}
		disturb, err := prepare(ctx)
		if err != nil {
			return quiet, disturbed, err
		}
		if got, err = s.burst(ctx, pods, disturb, s.file(fmt.Sprintf("-%s-%d.cpu.pprof", name, round))); err != nil {
			return quiet, disturbed, err
		}
		if disturbed, err = disturbed.plus(got); err != nil {
			return quiet, disturbed, err
		}
	}
	return quiet, disturbed, nil
}

// burst creates pods, measures the scheduler until it is at rest, and removes the pods.
func (s *session) burst(ctx context.Context, pods int, disturb disturbance, profile string) (burst, error) {
	before, err := s.read(ctx)
	if err != nil {
		return burst{}, err
	}
	var profiling errgroup.Group
	if disturb != nil && s.options.profile > 0 {
		profiling.Go(func() error { return s.profile(ctx, profile) })
	}
	elapsed, err := s.runDisturbed(ctx, pods, disturb)
	if err != nil {
		return burst{}, err
	}
	if err := sleep(ctx, settleTime); err != nil {
		return burst{}, err
	}
	after, err := s.read(ctx)
	if err != nil {
		return burst{}, err
	}
	result, err := after.since(before)
	if err != nil {
		return burst{}, err
	}
	result.pods, result.rounds, result.elapsed = pods, 1, elapsed
	if err := profiling.Wait(); err != nil {
		return burst{}, err
	}
	return result, s.removePods(ctx)
}

// runDisturbed returns how long the pods took; the disturbance may take longer.
func (s *session) runDisturbed(ctx context.Context, pods int, disturb disturbance) (time.Duration, error) {
	if disturb == nil {
		return s.runPods(ctx, pods)
	}
	group, ctx := errgroup.WithContext(ctx)
	scheduled := make(chan struct{})
	var elapsed time.Duration
	group.Go(func() error { return disturb(ctx, scheduled) })
	group.Go(func() (err error) {
		defer close(scheduled)
		elapsed, err = s.runPods(ctx, pods)
		return err
	})
	return elapsed, group.Wait()
}

// reading is what clocks and counters show at a moment.
type reading struct {
	// scheduler and control plane are CPU times of their processes; the latter is this one.
	scheduler, controlPlane time.Duration
	machine                 machineTime
	cycles                  histogram
}

func (s *session) read(ctx context.Context) (r reading, err error) {
	if r.scheduler, err = cpuTime(s.process.PID()); err != nil {
		return r, err
	}
	if r.controlPlane, err = cpuTime(os.Getpid()); err != nil {
		return r, err
	}
	if r.machine, err = readMachineTime(); err != nil {
		return r, err
	}
	text, err := get(ctx, s.process.Address(), "/metrics")
	if err != nil {
		return r, err
	}
	r.cycles, err = parseHistogram(text, algorithmMetric)
	return r, err
}

// since returns what happened after an earlier reading.
func (r reading) since(before reading) (burst, error) {
	cycles, err := r.cycles.since(before.cycles)
	cpu := r.scheduler - before.scheduler
	others := r.machine.busy - before.machine.busy - cpu - (r.controlPlane - before.controlPlane)
	return burst{cpu: cpu, cycles: cycles, others: max(others, 0), machine: r.machine.all - before.machine.all}, err
}

// profile writes a CPU profile of the scheduler from now on.
func (s *session) profile(ctx context.Context, file string) error {
	profile, err := get(ctx, s.process.Address(), fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(s.options.profile.Seconds())))
	if err != nil {
		return err
	}
	return os.WriteFile(file, profile, 0o644)
}
