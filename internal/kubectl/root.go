package kubectl

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/component-base/version"
)

// New returns the command kubectl devices with all its commands.
func New(streams genericiooptions.IOStreams) *cobra.Command {
	return newRoot(newOptions(streams))
}

func newRoot(o *options) *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-devices",
		Short: "Look at the devices of a cluster: what there is, who holds it, why a pod waits, and what would fit",
		Long: `Look at the devices of a cluster (resource.k8s.io): what there is, who holds it, why a pod waits, and what
would fit. It only reads, with your own rights, and works with any scheduler.

Without a command: per driver and node, how many devices there are, and how many of them are free, allocated,
shared and tainted; pools that are incomplete or invalid, and why. Nodes that look the same are summed up.
Devices are those of the whole cluster; --namespace limits which claims and pods are shown.`,
		Example: `  # What is there, and what is free?
  kubectl devices

  # One line for each device that matches an expression and is free
  kubectl devices list --free --selector 'device.driver == "gpu.example.com"'

  # Who holds what, and what should not be?
  kubectl devices holders`,
		Version:                    version.Get().String(), // the libraries' version, with our commit
		Annotations:                map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl devices"},
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		SilenceErrors:              true,
		DisableAutoGenTag:          true,
		PersistentPreRunE:          func(*cobra.Command, []string) error { return o.validate() },
	}
	// Do not leave this flag to cobra: binaries with Kubernetes' own flags have a global one of this name with
	// another type, which cobra would use.
	root.Flags().Bool("version", false, "print the version of Kubernetes' libraries with the commit, as the scheduler's")
	root.SetOut(o.Out)
	root.SetErr(o.ErrOut)
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
	meant := ""
	if near := root.SuggestionsFor(args[0]); len(near) > 0 {
		meant = fmt.Sprintf(" Did you mean %s?", strings.Join(near, " or "))
	}
	return fmt.Errorf("unknown command %q for %q.%s See kubectl devices --help", args[0], root.DisplayName(), meant)
}

// commands lists the commands in the order of the help text.
var commands = []func(*options) *cobra.Command{
	newList,
	newHolders,
	newExplain,
	newFit,
	newWaste,
	newWatch,
	newWeb,
	newDump,
}
