package kubectl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/quartermaster-dra/quartermaster/internal/kubectl/files"
	"github.com/quartermaster-dra/quartermaster/internal/kubectl/screen"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

func newDump(o *options) *cobra.Command {
	var file string
	var hash bool
	command := &cobra.Command{
		Use:   "dump",
		Short: "Write all that matters for devices to a file, for --from and bug reports",
		Long: `Writes nodes, ResourceSlices, claims, templates, classes, taint rules and pods to a file (gzipped JSON). All other
commands take it with --from, so that others can look into it without access to the cluster.

What does not matter is left out: environments, commands, images, annotations and most of the status of pods and
nodes. With --hash-names, these are replaced, each in the same way wherever it occurs: names of all objects,
namespaces, pools and hosts, UIDs, values of labels and taints, and what selects them. A replacement is a number,
in the alphabetical order of what it stands for (drivers and the scheduler go by that order), and a hash with a
random key that is thrown away. Parameters for drivers, data of devices' status and messages are left out then.

These stay as they are, so look at them before you publish a dump: CEL expressions, attributes and capacities,
names of drivers, of requests and of devices (if they do not contain one that is replaced), keys of labels and
taints, numbers.`,
		Example: `  kubectl devices dump -f devices.json.gz
  kubectl devices dump --hash-names -f devices.json.gz
  kubectl devices holders --from devices.json.gz`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return o.dump(command.Context(), file, hash) },
	}
	command.Flags().StringVarP(&file, "file", "f", "", "The file to write, stdout if empty or -")
	command.Flags().BoolVar(&hash, "hash-names", false, "Replace names and values of labels")
	return command
}

func (o *options) dump(ctx context.Context, name string, hash bool) error {
	toStdout := name == "" || name == "-"
	if toStdout && o.screen.Terminal {
		return errors.New("a dump is not for terminals; name a file with -f, or redirect the output")
	}
	objects, err := o.objects(ctx)
	if err != nil {
		return err
	}
	// Warn about missing objects, so that users do not take the dump for complete.
	if err := o.sayMissing(objects.Missing); err != nil {
		return err
	}
	if hash {
		if objects, err = files.Replace(objects); err != nil {
			return err
		}
	}
	if toStdout {
		return whatif.WriteDump(screen.Raw(o.Out), objects)
	}
	if err := writeFile(name, func(w io.Writer) error { return whatif.WriteDump(w, objects) }); err != nil {
		return err
	}
	fmt.Fprintf(o.ErrOut, "Wrote %s: %s, %s, %s, %s.\n", name, plural(len(objects.Nodes), "node"), plural(len(objects.Slices), "ResourceSlice"),
		plural(len(objects.Claims), "claim"), plural(len(objects.Pods), "pod"))
	return nil
}

// writeFile writes a file that only its owner may read: a dump reveals much about a cluster.
func writeFile(name string, write func(io.Writer) error) (err error) {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write the dump: %w", err)
	}
	defer func() {
		if closing := file.Close(); err == nil && closing != nil {
			err = fmt.Errorf("write the dump: %w", closing)
		}
	}()
	return write(file)
}
