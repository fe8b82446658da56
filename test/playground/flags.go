package playground

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// verboseLevel is klog's -v of all components with --verbose: high enough to follow each scheduling attempt.
const verboseLevel = 5

// clusterFlags holds the flags of both subcommands.
type clusterFlags struct {
	schedulerBinary string
	schedulerConfig string
	dir             string
	verbose         bool
}

func (f *clusterFlags) register(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.schedulerBinary, "scheduler-binary", "", "kube-scheduler executable to run (default: bin/scheduler, beside this program)")
	flags.StringVar(&f.schedulerConfig, "scheduler-config", "", "file with a KubeSchedulerConfiguration that has a profile quartermaster (default: that of manifests/secondary)")
	flags.StringVar(&f.dir, "dir", "", "new or empty folder for data and logs, which is kept (default: a temporary one, removed at the end)")
	flags.BoolVar(&f.verbose, "verbose", false, "log every scheduling attempt")
}

// workFolder is the folder for a cluster's data and logs.
type workFolder struct {
	path      string
	temporary bool
}

// open makes the folder and reads the files that the flags name.
func (f *clusterFlags) open() (ClusterOptions, workFolder, error) {
	options := ClusterOptions{SchedulerBinary: f.schedulerBinary}
	if f.verbose {
		options.Verbosity = verboseLevel
	}
	if f.schedulerConfig != "" {
		config, err := os.ReadFile(f.schedulerConfig)
		if err != nil {
			return options, workFolder{}, fmt.Errorf("read --scheduler-config: %w", err)
		}
		options.SchedulerConfig = config
	}
	folder, err := f.makeFolder()
	options.Dir = folder.path
	return options, folder, err
}

func (f *clusterFlags) makeFolder() (workFolder, error) {
	if f.dir == "" {
		path, err := os.MkdirTemp("", "quartermaster-playground-")
		if err != nil {
			return workFolder{}, fmt.Errorf("make a temporary folder: %w; name another one with --dir", err)
		}
		return workFolder{path: path, temporary: true}, nil
	}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return workFolder{}, fmt.Errorf("make the folder of --dir: %w", err)
	}
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return workFolder{}, fmt.Errorf("read the folder of --dir: %w", err)
	}
	// The objects of an earlier cluster would look like those of this one.
	if len(entries) > 0 {
		return workFolder{}, fmt.Errorf("--dir %s holds %d entries already; name a new or empty folder", f.dir, len(entries))
	}
	return workFolder{path: f.dir}, nil
}

// close removes a temporary folder, unless err is set: then the user needs the logs, and the error says where they
// are. An interrupt by the user is no such error.
func (w workFolder) close(ctx context.Context, err error) error {
	interrupted := ctx.Err() != nil && errors.Is(err, context.Canceled)
	if err != nil && !interrupted {
		return fmt.Errorf("%w\ndata and logs are kept in %s", err, w.path)
	}
	if !w.temporary {
		return err
	}
	if removeErr := os.RemoveAll(w.path); removeErr != nil {
		return errors.Join(err, fmt.Errorf("remove the temporary folder: %w", removeErr))
	}
	return err
}
