package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"k8s.io/client-go/kubernetes"

	"github.com/quartermaster-dra/quartermaster/test/controlplane"
)

// options are the command line.
type options struct {
	// templates is the directory with the templates of the workloads.
	templates string
	// results is the directory for logs and heap profiles.
	results string
	// nodes have ten devices each; claims hold one of these; pods are scheduled
	// before the heap is measured.
	nodes, claims, pods int
}

func main() {
	var o options
	flag.StringVar(&o.templates, "templates", filepath.Join("testdata", "templates"), "directory with the templates")
	flag.StringVar(&o.results, "results", filepath.Join("..", "..", "bin", "bench", "process"), "directory for logs and heap profiles")
	flag.IntVar(&o.nodes, "nodes", 5000, "number of nodes, with ten devices each")
	flag.IntVar(&o.claims, "claims", 20000, "number of claims that hold a device")
	flag.IntVar(&o.pods, "pods", 1000, "number of pods with a claim to schedule before the heap is measured")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := measure(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "measure the scheduler's process:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, o options) (err error) {
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
	fmt.Printf("make %d nodes with ten devices each, and %d claims that hold one\n", o.nodes, o.claims)
	if err := fill(ctx, client, o); err != nil {
		return err
	}
	var measured []measurement
	for _, s := range subjects {
		fmt.Printf("schedule %d pods with %s\n", o.pods, s.label)
		got, err := measureOne(ctx, client, cluster.AdminKubeconfig(), s, o)
		if err != nil {
			return fmt.Errorf("%s: %w", s.label, err)
		}
		measured = append(measured, got)
	}
	fmt.Println()
	return writeTable(os.Stdout, measured)
}
