package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	apiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/clientcmd"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	"k8s.io/component-base/version/verflag"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/guard/server"
)

func newCommand() *cobra.Command {
	o := newOptions()
	sets := o.flags()
	cmd := &cobra.Command{
		Use: "guard",
		Long: `The guard keeps devices from being handed out twice, whichever schedulers there are: API
servers ask it before they store the allocation of a ResourceClaim.`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			verflag.PrintAndExitIfRequested()
			if err := logsapi.ValidateAndApply(o.logs, nil); err != nil {
				return err
			}
			cliflag.PrintFlags(cmd.Flags())
			if err := o.guard.Validate(); err != nil {
				return err
			}
			return run(apiserver.SetupSignalContext(), o)
		},
	}
	global := sets.FlagSet("global")
	verflag.AddFlags(global)
	globalflag.AddGlobalFlags(global, cmd.Name(), logs.SkipLoggingConfigurationFlags())
	for _, set := range sets.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	width, _, err := term.TerminalSize(cmd.OutOrStdout())
	if err != nil {
		width = 0 // Not a terminal; do not wrap.
	}
	cliflag.SetUsageAndHelpFunc(cmd, sets, width)
	return cmd
}

// run runs the guard until a signal ends it.
func run(ctx context.Context, o *options) error {
	connection, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("find out where the API server is: %w", err)
	}
	config, err := o.guard.Config(ctx, connection)
	if err != nil {
		return err
	}
	config.Metrics = true
	klog.FromContext(ctx).Info("Starting the guard", "identity", config.Identity, "mode", config.Mode)
	return server.Run(ctx, config, server.Follow(config.Client))
}
