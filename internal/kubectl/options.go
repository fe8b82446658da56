package kubectl

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/utils/ptr"

	devicefacts "github.com/quartermaster-dra/quartermaster/internal/kubectl/facts"
	"github.com/quartermaster-dra/quartermaster/internal/kubectl/screen"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// options holds the flags and the connection that all commands share.
type options struct {
	genericiooptions.IOStreams
	config *genericclioptions.ConfigFlags
	// output is the format of results: "", wide, json, yaml, name, or a template.
	output string
	// printer prints results by a template, nil for other formats.
	printer printers.ResourcePrinter
	// from is the file of a dump that replaces the cluster.
	from string
	// everywhere is kubectl's --all-namespaces.
	everywhere bool

	// screen describes the output for results.
	screen screen.Screen
	now    func() time.Time
	// connect returns the source of the cluster's objects.
	connect func(context.Context, *options) (*whatif.Source, error)
}

func newOptions(streams genericiooptions.IOStreams) *options {
	s := screen.Of(streams.Out)
	streams.Out, streams.ErrOut = screen.NewCleaner(streams.Out), screen.NewCleaner(streams.ErrOut)
	return &options{
		IOStreams: streams, config: genericclioptions.NewConfigFlags(true), screen: s,
		now: time.Now, connect: connectByConfig,
	}
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	o.config.AddFlags(flags)
	flags.StringVarP(&o.output, "output", "o", "",
		"Output format: wide, name, json, yaml, jsonpath=…, custom-columns=… or go-template=…; a table by default")
	flags.StringVar(&o.from, "from", "", "Read a file of kubectl devices dump instead of a cluster")
	flags.BoolVarP(&o.everywhere, "all-namespaces", "A", false, "Show claims and pods of all namespaces, which is the default without --namespace")
	if namespace := flags.Lookup("namespace"); namespace != nil {
		namespace.Usage = "Show claims and pods of this namespace only, and look for names without a namespace there"
	}
}

// wide reports whether tables have all columns and rows.
func (o *options) wide() bool { return o.output == "wide" }

// onlyNamespace returns the namespace whose claims and pods are shown, "" for all.
func (o *options) onlyNamespace() string {
	if o.everywhere {
		return ""
	}
	return ptr.Deref(o.config.Namespace, "")
}

// namespace returns the default namespace for names without one, like kubectl.
func (o *options) namespace() string {
	if namespace, _, err := o.config.ToRawKubeConfigLoader().Namespace(); err == nil && namespace != "" {
		return namespace
	}
	return "default"
}

// source returns the source of the cluster's objects.
func (o *options) source(ctx context.Context) (*whatif.Source, error) { return o.connect(ctx, o) }

func connectByConfig(ctx context.Context, o *options) (*whatif.Source, error) {
	config, err := o.config.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w; set KUBECONFIG or --kubeconfig, or give a dump with --from", err)
	}
	// Lists of large clusters have many pages.
	config.QPS, config.Burst = 50, 100
	source, err := whatif.Connect(ctx, config)
	if err != nil {
		return nil, err
	}
	if source.Namespace, _, err = o.config.ToRawKubeConfigLoader().Namespace(); err != nil {
		return nil, fmt.Errorf("read the namespace of the kubeconfig: %w", err)
	}
	return source, nil
}

// objects reads all objects, from the cluster or from a dump. The caller reports what could not be read.
func (o *options) objects(ctx context.Context) (whatif.Objects, error) {
	if o.from == "" {
		source, err := o.source(ctx)
		if err != nil {
			return whatif.Objects{}, err
		}
		progress := screen.NewProgress(o.ErrOut)
		defer progress.Clear()
		progress.Step("Reading from the cluster …")
		source.Progress = func(resource string, count int) { progress.Step("Reading: %d %s …", count, resource) }
		return source.Read(ctx)
	}
	file, err := os.Open(o.from)
	if err != nil {
		return whatif.Objects{}, fmt.Errorf("open the dump: %w", err)
	}
	defer file.Close()
	return whatif.ReadDump(file)
}

// snapshot returns the objects as a whatif.Snapshot.
func (o *options) snapshot(ctx context.Context) (*whatif.Snapshot, error) {
	objects, err := o.objects(ctx)
	if err != nil {
		return nil, err
	}
	return whatif.New(objects, whatif.Options{}), nil
}

// facts reports what could not be read, and returns the facts about everything else.
func (o *options) facts(ctx context.Context) (*devicefacts.Facts, error) {
	snapshot, err := o.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	if err := o.sayMissing(snapshot.Missing()); err != nil {
		return nil, err
	}
	return devicefacts.Of(snapshot), nil
}
