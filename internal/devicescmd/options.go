package devicescmd

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// options are what all commands have in common.
type options struct {
	genericiooptions.IOStreams
	config *genericclioptions.ConfigFlags
	// output is how results are printed: "", wide, json or yaml.
	output string
	// from is a dump that is looked at instead of a cluster.
	from string
}

func newOptions(streams genericiooptions.IOStreams) *options {
	return &options{IOStreams: streams, config: genericclioptions.NewConfigFlags(true)}
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	o.config.AddFlags(flags)
	flags.StringVarP(&o.output, "output", "o", "", "Output format: wide, json or yaml; a table if empty")
	flags.StringVar(&o.from, "from", "", "Look at a file that kubectl devices dump has written, not at a cluster")
}

// source returns where objects are read from the cluster.
func (o *options) source(ctx context.Context) (*whatif.Source, error) {
	config, err := o.config.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w; set KUBECONFIG or --kubeconfig, or give a dump with --from", err)
	}
	source, err := whatif.Connect(ctx, config)
	if err != nil {
		return nil, err
	}
	if source.Namespace, _, err = o.config.ToRawKubeConfigLoader().Namespace(); err != nil {
		return nil, fmt.Errorf("read the namespace of the kubeconfig: %w", err)
	}
	return source, nil
}

// objects reads all objects, from the cluster or from a dump. The command says what could not be read.
func (o *options) objects(ctx context.Context) (whatif.Objects, error) {
	if o.from == "" {
		source, err := o.source(ctx)
		if err != nil {
			return whatif.Objects{}, err
		}
		return source.Read(ctx)
	}
	file, err := os.Open(o.from)
	if err != nil {
		return whatif.Objects{}, fmt.Errorf("open the dump: %w", err)
	}
	defer file.Close()
	return whatif.ReadDump(file)
}

// snapshot is objects as a world to ask.
func (o *options) snapshot(ctx context.Context) (*whatif.Snapshot, error) {
	objects, err := o.objects(ctx)
	if err != nil {
		return nil, err
	}
	return whatif.New(objects, whatif.Options{}), nil
}
