package playground

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/quartermaster-dra/quartermaster/test/playground/catalogue"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

type demoFlags struct {
	cluster  clusterFlags
	reasons  string
	only     []string
	patience time.Duration
	keep     bool
}

func newDemoCommand() *cobra.Command {
	var flags demoFlags
	command := &cobra.Command{
		Use:   "demo",
		Short: "Run all scenarios against a new cluster and check what happens",
		Long: `Runs every scenario of test/playground/catalogue at the same time on a new
simulated cluster, prints what became of each pod, and checks it against the
API server. The exit status is 0 only if everything is as expected.

Another scheduler can stand in for bin/scheduler, such as an unchanged
kube-scheduler with a profile named quartermaster:

  playground demo --scheduler-binary kube-scheduler --scheduler-config stock.yaml --reasons stock`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return runDemo(command, flags) },
	}
	flags.cluster.register(command)
	command.Flags().StringVar(&flags.reasons, "reasons", "quartermaster", "whose wording of reasons to expect on waiting pods: quartermaster or stock")
	command.Flags().StringSliceVar(&flags.only, "only", nil, "names of scenarios to run (default: all)")
	command.Flags().DurationVar(&flags.patience, "patience", 3*time.Minute, "how long one expectation may take to come true")
	command.Flags().BoolVar(&flags.keep, "keep", false, "keep the cluster running after the table, until Ctrl-C")
	return command
}

func runDemo(command *cobra.Command, flags demoFlags) (err error) {
	dialect, err := catalogue.DialectNamed(flags.reasons)
	if err != nil {
		return fmt.Errorf("--reasons: %w", err)
	}
	scenarios, err := chosenScenarios(flags.only)
	if err != nil {
		return err
	}
	cluster, folder, err := flags.cluster.open()
	if err != nil {
		return err
	}
	defer func() { err = folder.close(command.Context(), err) }()

	options := DemoOptions{
		Cluster:   cluster,
		Scenarios: scenarios,
		Dialect:   dialect,
		Patience:  flags.patience,
	}
	if flags.keep {
		options.Finished = func(c *Cluster, tally scenario.Tally) { keepRunning(command, c, tally) }
	}
	return RunDemo(command.Context(), options, command.OutOrStdout())
}

// chosenScenarios returns the scenarios with the given names, or all.
func chosenScenarios(names []string) ([]scenario.Scenario, error) {
	all := catalogue.Scenarios()
	if len(names) == 0 {
		return all, nil
	}
	var chosen []scenario.Scenario
	for _, name := range names {
		index := slices.IndexFunc(all, func(s scenario.Scenario) bool { return s.Name == name })
		if index < 0 {
			return nil, fmt.Errorf("--only: there is no scenario %q; the table of a full demo lists all names", name)
		}
		chosen = append(chosen, all[index])
	}
	return chosen, nil
}

// keepRunning waits for Ctrl-C, or until a part of the cluster ends.
func keepRunning(command *cobra.Command, cluster *Cluster, tally scenario.Tally) {
	fmt.Fprintf(command.OutOrStdout(), "%s\nThe cluster keeps running, press Ctrl-C to end it: export KUBECONFIG=%q\n",
		tally.Summary(), cluster.Kubeconfig())
	select {
	case <-command.Context().Done():
	case <-cluster.Ended():
	}
}
