package kubectl

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// New returns the command kubectl devices with all its commands.
func New(streams genericiooptions.IOStreams) *cobra.Command {
	return newRoot(newOptions(streams))
}

func newRoot(o *options) *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-devices",
		Short: "Show the devices of a cluster: which exist, who holds them, why a pod waits, and what would fit",
		Long: `Show the devices of a cluster (resource.k8s.io): which exist, who holds them, why a pod waits, and what would
fit. All commands only read, with your own rights, and work with any scheduler.

Without a command: for each driver and node, the number of devices, and how many of them are free, allocated,
shared and tainted. Incomplete and invalid pools are listed with the reason. Nodes that look the same share a line.
Devices are always those of the whole cluster; --namespace limits the claims and pods that are shown.`,
		Example: `  # Which devices are free?
  kubectl devices

  # List the free devices of a driver
  kubectl devices list --free --cel 'device.driver == "gpu.example.com"'

  # Who holds which devices, and is anything wrong?
  kubectl devices holders`,
		Version:                    ownVersion(),
		Annotations:                map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl devices"},
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		SilenceErrors:              true,
		DisableAutoGenTag:          true,
		PersistentPreRunE:          func(*cobra.Command, []string) error { return o.validate() },
	}
	// Do not leave this flag to cobra: binaries with Kubernetes' own flags have a global one of this name with
	// another type, which cobra would use.
	root.Flags().Bool("version", false, "Print the version")
	root.SetOut(o.Out)
	root.SetErr(o.ErrOut)
	root.SetUsageFunc(usage)
	root.SetFlagErrorFunc(flagError)
	o.addFlags(root.PersistentFlags())
	o.completeFlags(root)
	addOverview(o, root)
	for _, command := range commands {
		root.AddCommand(command(o))
	}
	return root
}

// noCommand refuses an unknown command, and suggests similar ones.
func noCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("unknown command %q for %q.%s See kubectl devices --help", args[0], root.DisplayName(), didYouMean("", root.SuggestionsFor(args[0])))
}

// commands lists the commands. The help text sorts them by name.
var commands = []func(*options) *cobra.Command{
	newList,
	newHolders,
	newExplain,
	newFit,
	newFragmentation,
	newWaste,
	newWatch,
	newWeb,
	newDump,
	newClusterRole,
	newVersion,
	newOptionsCommand,
}
