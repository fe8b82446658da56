package playground

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/test/checker"
	"github.com/quartermaster-dra/quartermaster/test/playground/catalogue"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

// ErrNotAsExpected is the error of a completed demo that has already printed its unexpected results.
var ErrNotAsExpected = errors.New("the demo found something that is not as expected")

// DemoOptions configures the demo.
type DemoOptions struct {
	Cluster ClusterOptions
	// Scenarios are the scenarios to run; all scenarios of the catalogue if empty.
	Scenarios []scenario.Scenario
	// Dialect is the scheduler's wording of its reasons.
	Dialect scenario.Dialect
	// Patience limits the wait for one expectation.
	Patience time.Duration
	// Finished, if not nil, is called with the cluster still running, after
	// the table and before the summary line.
	Finished func(*Cluster, scenario.Tally)
}

// RunDemo starts a cluster, runs the scenarios, prints progress and a table,
// stops the cluster, and prints the summary as the last line. The error is nil
// only if everything is as expected.
func RunDemo(ctx context.Context, options DemoOptions, out io.Writer) error {
	if len(options.Scenarios) == 0 {
		options.Scenarios = catalogue.Scenarios()
	}
	if options.Cluster.FeatureGates == nil {
		options.Cluster.FeatureGates, options.Cluster.APIs = catalogue.AllFeatureGates(), catalogue.APIs()
	}
	tally, err := runOnNewCluster(ctx, options, out)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, tally.Summary()); err != nil {
		return err
	}
	if len(tally.Problems) > 0 {
		return ErrNotAsExpected
	}
	return nil
}

// runOnNewCluster does everything in RunDemo except the summary, which must come after all output of stopping
// components.
func runOnNewCluster(ctx context.Context, options DemoOptions, out io.Writer) (tally scenario.Tally, err error) {
	report := newProgress(out)
	report.line("%s on a new cluster on this machine, for about half a minute; nothing is installed", count(len(options.Scenarios), "scenario"))
	report.line("starting etcd, kube-apiserver and controllers")
	cluster, err := StartCluster(ctx, options.Cluster)
	if err != nil {
		return tally, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	ctx, cancel := cancelledByEnd(ctx, cluster)
	defer cancel()

	d := &demo{options: options, cluster: cluster, report: report, recorder: scenario.NewRecorder()}
	if tally, err = d.run(ctx); err != nil {
		// The cause of the context's end is more informative than the end.
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return tally, err
	}
	return tally, d.conclude(tally, out)
}

// cancelledByEnd returns a context that also ends when a part of the cluster
// ends.
func cancelledByEnd(ctx context.Context, cluster *Cluster) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-cluster.Ended():
			cancel(cluster.Err())
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(context.Canceled) }
}

// demo is one run of the demo on a running cluster.
type demo struct {
	options  DemoOptions
	cluster  *Cluster
	report   *progress
	recorder *scenario.Recorder
}

func (d *demo) run(ctx context.Context) (scenario.Tally, error) {
	client := d.cluster.Client
	cache, err := scenario.NewCache(ctx, client, d.recorder)
	if err != nil {
		return scenario.Tally{}, err
	}
	runner := &scenario.Runner{
		Objects:  scenario.NewObjects(d.cluster.Dynamic),
		Cached:   cache,
		Live:     scenario.LiveSource{Client: client},
		Dialect:  d.options.Dialect,
		Patience: d.options.Patience,
		Ended:    d.scenarioEnded(),
	}
	for _, class := range catalogue.Classes() {
		if err := runner.Objects.Create(ctx, "", class); err != nil {
			return scenario.Tally{}, err
		}
	}
	if err := runner.Prepare(ctx, d.options.Scenarios, scenario.DefaultAccounts(client)); err != nil {
		return scenario.Tally{}, err
	}
	d.report.line("%s", hardwareTitle(d.options.Scenarios))
	if err := d.cluster.StartScheduler(ctx); err != nil {
		return scenario.Tally{}, err
	}
	d.report.line("%s", schedulerTitle(d.cluster.Scheduler()))
	d.report.line("running %d scenarios at the same time", len(d.options.Scenarios))

	tally := runner.Confirm(ctx, runner.Run(ctx, d.options.Scenarios))
	if err := ctx.Err(); err != nil {
		return tally, err
	}
	return tally, d.checkInvariants(ctx, &tally)
}

// scenarioEnded returns a callback that prints one line for each scenario.
func (d *demo) scenarioEnded() func(scenario.Result) {
	number := 0
	return func(result scenario.Result) {
		number++
		verdict := "ok    "
		if result.Err != nil {
			verdict = "FAILED"
		}
		d.report.line("%2d/%d %s %s (%.1fs)", number, len(d.options.Scenarios), verdict,
			result.Scenario.Name, result.Took.Seconds())
	}
}

// checkInvariants asks the independent checker what is wrong in the cluster.
func (d *demo) checkInvariants(ctx context.Context, tally *scenario.Tally) error {
	ctx, cancel := context.WithTimeout(ctx, d.options.Patience) // Controllers clean up.
	defer cancel()
	violations, err := checker.WaitSettled(ctx, d.cluster.Client, checker.Options{})
	if err != nil {
		return fmt.Errorf("check the invariants: %w", err)
	}
	for _, violation := range violations {
		tally.Problems = append(tally.Problems, "invariant violated: "+violation.String())
	}
	d.report.line("invariants checked: %d violations", len(violations))
	return nil
}

// conclude prints the table and the problems.
func (d *demo) conclude(tally scenario.Tally, out io.Writer) error {
	if err := scenario.WriteTable(out, d.options.Scenarios, d.recorder); err != nil {
		return err
	}
	var text strings.Builder
	text.WriteString("\n")
	for _, problem := range tally.Problems {
		fmt.Fprintf(&text, "FAILED %s\n", problem)
	}
	if len(tally.Problems) > 0 {
		fmt.Fprintf(&text, "data and logs are kept in %s\n", d.options.Cluster.Dir)
	}
	if _, err := io.WriteString(out, text.String()); err != nil {
		return err
	}
	if d.options.Finished != nil {
		d.options.Finished(d.cluster, tally)
	}
	return nil
}

// hardwareTitle counts the hardware of the scenarios.
func hardwareTitle(scenarios []scenario.Scenario) string {
	nodes, slices, devices := 0, 0, 0
	for _, s := range scenarios {
		for _, object := range s.Cluster {
			switch object := object.(type) {
			case *corev1.Node:
				nodes++
			case *resourceapi.ResourceSlice:
				slices++
				devices += len(object.Spec.Devices)
			}
		}
	}
	return fmt.Sprintf("%d simulated nodes and %d devices in %d resource slices", nodes, devices, slices)
}
