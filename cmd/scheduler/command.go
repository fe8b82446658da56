package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	"k8s.io/component-base/version/verflag"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"github.com/quartermaster-dra/quartermaster/internal/wiring"
)

// informersName is the name under which kube-scheduler's metrics know its informers.
const informersName = "kube-scheduler"

// newCommand returns kube-scheduler's command, assembled like app.NewSchedulerCommand from the parts that upstream
// exports.
// The upstream function does not let callers change the client set of the scheduler and its informers (setup).
func newCommand(plugins ...app.Option) *cobra.Command {
	o, guard := options.NewOptions(), newGuardOptions()
	cmd := &cobra.Command{
		Use: informersName,
		Long: `Quartermaster is kube-scheduler with one plugin exchanged: "Quartermaster" hands out
devices in the place of "DynamicResources". It has the flags and the configuration of
kube-scheduler, see https://kubernetes.io/docs/reference/command-line-tools-reference/kube-scheduler/

With --guard it is the guard of the cluster as well, which API servers ask before they store the
allocation of a ResourceClaim by any scheduler.`,
		Args: cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return o.ComponentGlobalsRegistry.Set() // Feature gates must be known before anything runs.
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd, o, guard, plugins) },
	}
	global := o.Flags.FlagSet("global")
	verflag.AddFlags(global)
	globalflag.AddGlobalFlags(global, cmd.Name(), logs.SkipLoggingConfigurationFlags())
	guard.addFlags(o.Flags.FlagSet("guard"))
	for _, set := range o.Flags.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	width, _, err := term.TerminalSize(cmd.OutOrStdout())
	if err != nil {
		width = 0 // Not a terminal; do not wrap.
	}
	cliflag.SetUsageAndHelpFunc(cmd, *o.Flags, width)
	if err := cmd.MarkFlagFilename("config", "yaml", "yml", "json"); err != nil {
		panic(err) // kube-scheduler no longer has this flag.
	}
	return cmd
}

// run runs the scheduler until a signal ends it.
func run(cmd *cobra.Command, o *options.Options, guard *guardOptions, plugins []app.Option) error {
	verflag.PrintAndExitIfRequested()
	gates := o.ComponentGlobalsRegistry.FeatureGateFor(compatibility.DefaultKubeComponent)
	// Errors about logging are the only ones that cannot be logged.
	if err := logsapi.ValidateAndApply(o.Logs, gates); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cliflag.PrintFlags(cmd.Flags())
	var err error
	if o.InformerName, err = cache.NewInformerName(informersName); err != nil {
		return err
	}
	if err := guard.validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(wiring.Context(context.Background()))
	defer cancel()
	var running runningGuard
	go func() {
		<-server.SetupSignalHandler()
		running.stop()
		cancel()
	}()
	completed, scheduler, err := setup(ctx, o, plugins)
	if err != nil {
		return err
	}
	if mutable, ok := gates.(featuregate.MutableFeatureGate); ok {
		mutable.AddMetrics()
	}
	o.ComponentGlobalsRegistry.AddMetrics()
	guardFailed, err := running.start(ctx, guard, completed)
	if err != nil {
		return err
	}
	collectLess(func() { waitFilled(ctx, completed) })
	restored := make(chan error, 1)
	go func() {
		if err := wiring.WatchHistory(ctx, completed.Client); err != nil {
			restored <- err
		}
	}()
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx, completed, scheduler) }()
	select {
	case err = <-ended:
	case err = <-guardFailed:
	case err = <-restored:
	}
	return err
}
