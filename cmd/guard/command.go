package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	"k8s.io/component-base/version/verflag"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/apiversions"
	"github.com/quartermaster-dra/quartermaster/internal/guard"
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
			if err := o.validate(); err != nil {
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
	connection.UserAgent = "quartermaster-guard"
	connection.QPS, connection.Burst = o.qps, int(o.qps)
	client, err := connect(ctx, connection)
	if err != nil {
		return err
	}
	leases, err := kubernetes.NewForConfig(rest.AddUserAgent(connection, "leader-election"))
	if err != nil {
		return err
	}
	holdings, follow, err := server.Follow(client)
	if err != nil {
		return err
	}
	config := &server.Config{
		Client: client, Leases: leases, Identity: identity(), Mode: guard.Mode(o.mode), Serving: o.serving,
		RegisterURL: o.register == registerURL, FailurePolicy: admissionregistrationv1.FailurePolicyType(o.failurePolicy),
		Election: o.election, ServiceNames: o.serviceNames(), RequestTimeout: o.requestTimeout,
		Started: follow,
	}
	klog.FromContext(ctx).Info("Starting the guard", "identity", config.Identity, "mode", o.mode)
	return server.Run(ctx, config, holdings)
}

// connect returns a client set that works with the versions of the claim API that the server has.
func connect(ctx context.Context, connection *rest.Config) (kubernetes.Interface, error) {
	client, err := kubernetes.NewForConfig(connection)
	if err != nil {
		return nil, err
	}
	untyped, err := dynamic.NewForConfig(connection)
	if err != nil {
		return nil, err
	}
	return apiversions.Connect(ctx, client, untyped), nil
}
