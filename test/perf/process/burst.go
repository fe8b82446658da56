package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
)

// burst is the measurement of pods that are created at once, summed over one or several rounds.
type burst struct {
	pods, rounds int
	// elapsed is the time from the creation of the first pod until the last one was scheduled,
	// cpu the scheduler's CPU time until it is at rest again.
	elapsed, cpu time.Duration
	cycles       histogram
	// others is the CPU time of unrelated processes, machine the time of all cores, used or
	// not. The more others use, the less the other values can be trusted.
	others, machine time.Duration
}

func (b burst) throughput() float64 { return float64(b.pods) / b.elapsed.Seconds() }

// cpuSeconds returns the scheduler's CPU time in one round.
func (b burst) cpuSeconds() float64 { return b.cpu.Seconds() / float64(b.rounds) }

// othersPercent returns the share of the machine's time that unrelated processes used.
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

// disturbance changes the cluster while pods are scheduled. The caller closes scheduled once
// all pods are scheduled; the disturbance then ends by itself and leaves the cluster as it was.
type disturbance func(ctx context.Context, scheduled <-chan struct{}) error

// compare alternates quiet and disturbed bursts. Each round prepares a new disturbance before the
// burst, so that the preparation is not measured.
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

// runDisturbed returns the time that the pods took; the disturbance may take longer.
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

// reading is the state of clocks and counters at one moment.
type reading struct {
	// scheduler and controlPlane are CPU times of their processes. This process is the control plane.
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

// since returns the difference to an earlier reading.
func (r reading) since(before reading) (burst, error) {
	cycles, err := r.cycles.since(before.cycles)
	cpu := r.scheduler - before.scheduler
	others := r.machine.busy - before.machine.busy - cpu - (r.controlPlane - before.controlPlane)
	return burst{cpu: cpu, cycles: cycles, others: max(others, 0), machine: r.machine.all - before.machine.all}, err
}

// profile records a CPU profile of the scheduler from now on and writes it to a file.
func (s *session) profile(ctx context.Context, file string) error {
	profile, err := get(ctx, s.process.Address(), fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(s.options.profile.Seconds())))
	if err != nil {
		return err
	}
	return os.WriteFile(file, profile, 0o644)
}
