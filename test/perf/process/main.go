package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/quartermaster-dra/quartermaster/test/controlplane"
)

// options are the options of the command line.
type options struct {
	// templates is the directory with the templates of the workloads.
	templates string
	// results is the directory for logs and profiles.
	results string
	// nodes is the number of nodes, devices that of the devices of each node, claims that of the claims that hold a device.
	nodes, devices, claims int
	// pods is the number of pods to schedule before the heap is measured, and while nodes flap.
	pods int
	// scenarios are the names of the scenarios to measure, separated by commas.
	scenarios string
	// rounds is the number of times that a scheduler goes through each scenario but the first.
	rounds int
	// profile is the duration of the CPU profile of a scheduler in each disturbed burst; 0 is none.
	profile time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.templates, "templates", filepath.Join("testdata", "templates"), "directory with the templates")
	flag.StringVar(&o.results, "results", filepath.Join("..", "..", "bin", "bench", "process"), "directory for logs and profiles")
	flag.IntVar(&o.nodes, "nodes", 5000, "number of nodes")
	flag.IntVar(&o.devices, "devices", 10, "number of devices of each node, at most 128")
	flag.IntVar(&o.claims, "claims", 20000, "number of claims that hold a device")
	flag.IntVar(&o.pods, "pods", 1000, "number of pods with a claim to schedule before the heap is measured, and while nodes flap")
	flag.StringVar(&o.scenarios, "scenarios", strings.Join(names(scenarios), ","), "what to measure")
	flag.IntVar(&o.rounds, "rounds", 1, "how often to go through each scenario but pods")
	flag.DurationVar(&o.profile, "profile", 0, "how long to profile a scheduler's CPU in each disturbed burst, in whole seconds")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := measure(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "measure the scheduler's process:", err)
		os.Exit(1)
	}
}

// check returns an error for options with which pods would wait for ever or nothing would be measured.
func (o options) check() error {
	if most := max(o.pods, republishPods); o.nodes*o.devices-o.claims < most {
		return fmt.Errorf("%d pods with a device each are asked for, and %d nodes with %d devices each have %d that no claim holds; raise -nodes or lower -claims or -pods",
			most, o.nodes, o.devices, o.nodes*o.devices-o.claims)
	}
	if o.devices > resourceapi.ResourceSliceMaxDevices {
		return fmt.Errorf("-devices %d is asked for, and a ResourceSlice holds at most %d; raise -nodes instead", o.devices, resourceapi.ResourceSliceMaxDevices)
	}
	if o.rounds < 1 || o.pods < 1 {
		return fmt.Errorf("-rounds %d and -pods %d are asked for; both have to be at least 1", o.rounds, o.pods)
	}
	return nil
}

func measure(ctx context.Context, o options) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	chosen, err := choose(scenarios, o.scenarios)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.results, 0o755); err != nil {
		return err
	}
	fmt.Println("start a control plane")
	cluster, err := controlplane.Start(ctx, controlplane.Options{LogFile: filepath.Join(o.results, "controlplane.log")})
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := cluster.Stop(); err == nil {
			err = stopErr
		}
	}()
	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	if err != nil {
		return err
	}
	fmt.Printf("make %d nodes with %d devices each, and %d claims that hold one\n", o.nodes, o.devices, o.claims)
	begin := time.Now()
	if err := fill(ctx, client, o); err != nil {
		return err
	}
	fmt.Printf("made in %s\n", time.Since(begin).Round(time.Second))
	results := make(map[string][]row)
	for _, s := range subjects {
		if err = measureSubject(ctx, client, cluster.AdminKubeconfig(), s, o, chosen, results); err != nil {
			err = fmt.Errorf("%s: %w", s.label, err)
			break
		}
	}
	// Results from before a failure took minutes to measure, so they are published, too.
	return errors.Join(err, publishTables(o.results, chosen, results))
}

// publishTables prints the tables and writes them to a file, from which hack/benchtable makes data files.
func publishTables(folder string, chosen []scenario, results map[string][]row) error {
	var text bytes.Buffer
	if err := writeTables(io.MultiWriter(os.Stdout, &text), chosen, results); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "table.md"), text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the tables: %w", err)
	}
	return nil
}
