package playground

import "github.com/spf13/cobra"

// NewCommand returns the command of cmd/playground.
func NewCommand() *cobra.Command {
	command := &cobra.Command{
		Use:           "playground",
		Short:         "Try the Quartermaster scheduler on a simulated cluster on this machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	command.AddCommand(newDemoCommand(), newUpCommand())
	return command
}
