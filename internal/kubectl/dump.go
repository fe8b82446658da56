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
		Short: "Write the objects that concern devices to a file, for --from and bug reports",
		Long: `Write nodes, ResourceSlices, claims, templates, classes, taint rules and pods to a file (gzipped JSON). The other
commands read it with --from, without access to the cluster.

The dump leaves out environments, commands, images, annotations and most of the status of pods and nodes.
--hash-names also replaces names of objects, namespaces, pools and hosts, UIDs, and values of labels and taints. A
name has the same replacement everywhere: a number that keeps the alphabetical order, because drivers and the
scheduler use it, and a hash with a random key. The key is not kept. The parameters of drivers, the status of
devices and messages are then left out.

--hash-names keeps CEL expressions, attributes, capacities, keys of labels and taints, numbers, and the names of
drivers, requests and devices that contain no replaced name. Read them before you publish a dump.`,
		Example: `  # Write a dump
  kubectl devices dump -f devices.json.gz

  # Write a dump without names, and look into it
  kubectl devices dump --hash-names -f devices.json.gz
  kubectl devices holders --from devices.json.gz`,
		Args: noArgs,
		RunE: func(command *cobra.Command, _ []string) error { return o.dump(command.Context(), file, hash) },
	}
	command.Flags().StringVarP(&file, "filename", "f", "", "File to write; - or nothing writes to standard output")
	command.Flags().BoolVar(&hash, "hash-names", false, "Replace names, and values of labels")
	return command
}

func (o *options) dump(ctx context.Context, name string, hash bool) error {
	toStdout := name == "" || name == "-"
	if toStdout && o.screen.Terminal {
		return errors.New("a dump is binary and would garble the terminal; name a file with -f, or redirect the output")
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
