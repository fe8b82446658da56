package devicescmd

import (
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// New returns the command kubectl devices with all its commands.
func New(streams genericiooptions.IOStreams) *cobra.Command {
	o := newOptions(streams)
	root := &cobra.Command{
		Use:   "kubectl-devices",
		Short: "Look at the devices of a cluster: what there is, who holds it, why a pod waits, and what would fit",
		Long: `Look at the devices of a cluster (resource.k8s.io): what there is, who holds it, why a pod waits, and what
would fit. It only reads, with your own rights, and works with any scheduler.`,
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl devices"},
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
	}
	o.addFlags(root.PersistentFlags())
	for _, command := range commands {
		root.AddCommand(command(o))
	}
	return root
}

// commands are the commands in the order in which help has them.
var commands = []func(*options) *cobra.Command{}
