package playground

import "github.com/spf13/cobra"

type upFlags struct {
	cluster     clusterFlags
	fleet       UpFleet
	noScheduler bool
}

func newUpCommand() *cobra.Command {
	var flags upFlags
	command := &cobra.Command{
		Use:   "up",
		Short: "Keep a simulated cluster with GPUs running until Ctrl-C",
		Args:  cobra.NoArgs,
		RunE:  func(command *cobra.Command, _ []string) error { return runUp(command, flags) },
	}
	flags.cluster.register(command)
	command.Flags().IntVar(&flags.fleet.Nodes, "nodes", 4, "number of simulated nodes")
	command.Flags().IntVar(&flags.fleet.DevicesPerNode, "devices-per-node", 8, "number of GPUs of each node")
	command.Flags().BoolVar(&flags.noScheduler, "no-scheduler", false, "neither install nor run a scheduler: a cluster to install one into")
	return command
}

func runUp(command *cobra.Command, flags upFlags) (err error) {
	if err := flags.fleet.Validate(); err != nil {
		return err
	}
	cluster, folder, err := flags.cluster.open()
	if err != nil {
		return err
	}
	defer func() { err = folder.close(command.Context(), err) }()
	cluster.NotInstalled = flags.noScheduler
	return Up(command.Context(), UpOptions{Cluster: cluster, Fleet: flags.fleet}, command.OutOrStdout())
}
